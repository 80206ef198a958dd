import { existsSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import * as v from "valibot";
import { messageOf, UsageError } from "../errors.ts";
import { nearest } from "../nearest.ts";

/** Lies beside the weights and goes with them from version to version. */
export const modelSettingsFile = "agl-model.json";

/** Of the recipe's models. */
const recipeContext = 32_768;
const positive = v.pipe(v.number(), v.minValue(0));
const count = v.pipe(v.number(), v.integer(), v.minValue(1));

/** Hyper-parameters; the defaults are the recipe's for 4-billion-parameter models. */
const trainingSchema = v.strictObject({
  max_length: v.optional(count, 4096),
  lora_r: v.optional(count, 32),
  lora_alpha: v.optional(count, 32),
  lora_dropout: v.optional(positive, 0),
  learning_rate: v.optional(positive, 2e-4),
  weight_decay: v.optional(positive, 0.01),
  warmup_steps: v.optional(v.pipe(v.number(), v.integer(), v.minValue(0)), 5),
  schedule: v.optional(v.string(), "linear"),
  batch_size: v.optional(count, 2),
  accumulation: v.optional(count, 4),
  epochs: v.optional(count, 1),
  max_steps: v.optional(v.nullable(count), 60),
  optimizer: v.optional(v.string(), "adamw_8bit"),
});

const modelSettingsSchema = v.strictObject({
  served_name: v.optional(v.string()),
  /** When absent, what the model's own configuration allows. */
  max_model_len: v.optional(count),
  tool_call_parser: v.optional(v.string(), "hermes"),
  /** What training and sampled evaluation send; greedy evaluation sets the temperature to 0. */
  sampling_parameters: v.optional(v.record(v.string(), v.unknown()), { temperature: 1, top_p: 1 }),
  /** Of the math agent's comparison of answer and target. */
  relative_tolerance: v.optional(positive),
  training: v.optional(trainingSchema, {}),
});

export type ModelSettings = v.InferOutput<typeof modelSettingsSchema> & {
  served_name: string;
  max_model_len: number;
};

/** The model's own settings, or the recipe's when the folder brings none. */
export function readModelSettings(folder: string): ModelSettings {
  if (!existsSync(join(folder, "config.json"))) {
    throw new UsageError(
      `${folder}: holds no config.json, so it is no model`,
      "name a folder in Hugging Face's layout",
    );
  }
  const file = join(folder, modelSettingsFile);
  let given: unknown = {};
  if (existsSync(file)) {
    try {
      given = JSON.parse(readFileSync(file, "utf8"));
    } catch (error) {
      throw new UsageError(
        `${file}: is not JSON (${messageOf(error)})`,
        "correct it, or remove it to use the recipe's settings",
      );
    }
  }
  const result = v.safeParse(modelSettingsSchema, given);
  if (!result.success) {
    throw new UsageError(`${file}: ${describeIssue(result.issues[0])}`, "correct the field");
  }
  return {
    ...result.output,
    served_name: result.output.served_name ?? basename(folder),
    max_model_len: result.output.max_model_len ?? Math.min(recipeContext, contextOf(folder)),
  };
}

function describeIssue(issue: v.InferIssue<typeof modelSettingsSchema>): string {
  const path = v.getDotPath(issue) ?? "";
  if (issue.type !== "strict_object") return `field ${path}: ${issue.message}`;
  const name = path.split(".").at(-1) ?? "";
  const known = path === name ? modelSettingsSchema.entries : trainingSchema.entries;
  const similar = nearest(name, Object.keys(known));
  return `there is no field ${path}${similar === undefined ? "" : `; did you mean ${similar}?`}`;
}

/** Positions the model was made for; a server refuses to serve more. */
function contextOf(folder: string): number {
  const text = readFileSync(join(folder, "config.json"), "utf8");
  const { max_position_embeddings: own, text_config } = parseConfig(text);
  return own ?? text_config?.max_position_embeddings ?? recipeContext;
}

const positions = v.object({ max_position_embeddings: v.optional(count) });
const configSchema = v.object({ ...positions.entries, text_config: v.optional(positions) });

/** What is wrong with it is said elsewhere. */
function parseConfig(text: string): v.InferOutput<typeof configSchema> {
  try {
    const parsed = v.safeParse(configSchema, JSON.parse(text));
    return parsed.success ? parsed.output : {};
  } catch {
    return {};
  }
}
