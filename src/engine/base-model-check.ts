import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import * as v from "valibot";
import { messageOf } from "../errors.ts";
import { type GpuUse, planModel } from "./gpu-plan.ts";
import {
  cpuMemoryNeed,
  gigabytes,
  longestCpuContext,
  memoryShortage,
  type ModelPurpose,
  type ModelShape,
} from "./model-memory.ts";
import { bytesPerToken, shapeFields } from "./model-shape.ts";
import { measureWeights, type ModelProblem, weightKindProblem, type WeightTotals } from "./model-weights.ts";
import type { Profile } from "./profile.ts";

export interface ModelUse {
  profile?: Profile;
  /** To be trained, too, unless it is `serve`. */
  purpose?: ModelPurpose;
  /** Of the machine; not checked when it is not given. */
  availableMemoryBytes?: number;
  /** Under `cuda`; its memory is not checked when it is not given. */
  gpu?: GpuUse;
  /** Context that is going to be served, in tokens. */
  contextLength?: number;
}

const tokenizers = [
  "tokenizer.json",
  "tokenizer.model",
  "vocab.json",
  "vocab.txt",
  "tekken.json",
  "spiece.model",
];
const templates = ["chat_template.jinja", "chat_template.json", "tekken.json"];
const templateHolder = v.object({ chat_template: v.union([v.string(), v.array(v.unknown())]) });
const causal = /(ForCausalLM|LMHeadModel)$/;

const configSchema = v.object({
  architectures: v.optional(v.array(v.string())),
  quantization_config: v.optional(v.unknown()),
  text_config: v.optional(v.object(shapeFields)),
  ...shapeFields,
});
type ModelConfig = v.InferOutput<typeof configSchema>;

/**
 * Everything that keeps a folder from being served, and trained, as base model. Found here it costs a moment; found by the
 * model server or after the rollouts, minutes or hours.
 */
export function baseModelProblems(folder: string, use: ModelUse = {}): ModelProblem[] {
  if (!existsSync(folder) || !statSync(folder).isDirectory()) return [noFolder(folder)];
  const names = readdirSync(folder);
  const kind = weightKindProblem(names, folder);
  if (kind !== undefined) return [kind];
  const { config, problems } = readConfig(folder);
  if (config !== undefined) problems.push(...configProblems(config, use.purpose ?? "improve"));
  problems.push(...tokenizerProblems(folder, names));
  const weights = measureWeights(folder, names);
  problems.push(...weights.problems);
  // The sum of what is there says nothing when something is missing.
  if (weights.problems.length === 0 && config !== undefined)
    problems.push(...memoryProblems(config, weights.totals, use));
  return problems;
}

function noFolder(folder: string): ModelProblem {
  if (existsSync(folder)) {
    const ours = "name its folder; GGUF and single files are not served";
    return { message: "it is a file, not a folder", remedy: ours };
  }
  return {
    message: "it does not exist",
    remedy: "name a folder that holds a model, or a model of the hub as owner/name",
  };
}

function readConfig(folder: string): { config?: ModelConfig; problems: ModelProblem[] } {
  const remedy = "copy or download the model again";
  const file = join(folder, "config.json");
  if (!existsSync(file)) return { problems: [{ message: "it holds no config.json", remedy }] };
  try {
    return { config: v.parse(configSchema, JSON.parse(readFileSync(file, "utf8"))), problems: [] };
  } catch (error) {
    return { problems: [{ message: `its config.json cannot be read: ${messageOf(error)}`, remedy }] };
  }
}

function configProblems(config: ModelConfig, purpose: ModelPurpose): ModelProblem[] {
  const problems: ModelProblem[] = [];
  const architectures = config.architectures ?? [];
  if (!architectures.some((name) => causal.test(name))) {
    const found = architectures.length === 0 ? "names no architecture" : `says ${architectures.join(", ")}`;
    problems.push({
      message: `it is no causal language model: config.json ${found}`,
      remedy: "name a text model whose architecture ends in ForCausalLM",
    });
  }
  if (purpose === "improve" && config.quantization_config !== undefined) {
    problems.push({
      message: "its weights are quantised, and trained weights could not be swapped in for them",
      remedy: "name the model in 16 bits that it was made from; the trainer quantises for itself",
    });
  }
  return problems;
}

function tokenizerProblems(folder: string, names: string[]): ModelProblem[] {
  const problems: ModelProblem[] = [];
  if (!tokenizers.some((name) => names.includes(name))) {
    problems.push({
      message: `it holds no tokenizer (${tokenizers.slice(0, 3).join(", ")})`,
      remedy: "copy the tokenizer files of the model it was made from into it",
    });
  }
  if (!templates.some((name) => names.includes(name)) && !configHoldsTemplate(folder, names)) {
    problems.push({
      message: "it holds no chat template (chat_template.jinja, or chat_template in tokenizer_config.json)",
      remedy: "name the instruct or chat variant of the model, or add its chat_template.jinja",
    });
  }
  return problems;
}

function configHoldsTemplate(folder: string, names: string[]): boolean {
  if (!names.includes("tokenizer_config.json")) return false;
  try {
    return v.is(templateHolder, JSON.parse(readFileSync(join(folder, "tokenizer_config.json"), "utf8")));
  } catch {
    return false;
  }
}

function memoryProblems(config: ModelConfig, totals: WeightTotals, use: ModelUse): ModelProblem[] {
  const shape = { parameters: totals.parameters, bytesPerToken: bytesPerToken(config) };
  const { profile = "cpu", contextLength } = use;
  if (profile === "cpu") return cpuProblems(shape, use);
  const problem =
    use.gpu === undefined ? undefined : planModel(use.gpu, shape, contextLength, use.purpose).problem;
  return problem === undefined ? [] : [problem];
}

function cpuProblems(shape: ModelShape, use: ModelUse): ModelProblem[] {
  const problems: ModelProblem[] = [];
  const { purpose = "improve", availableMemoryBytes, contextLength } = use;
  const longest = longestCpuContext(shape);
  if (contextLength !== undefined && contextLength > longest) {
    problems.push({
      message: `a context of ${contextLength} tokens takes ${gigabytes(contextLength * shape.bytesPerToken)} GB of KV cache, and the CPU profile has 1.1 GB`,
      remedy: `set --engine-max-model-len to ${longest} or less`,
    });
  }
  const shortage = memoryShortage(cpuMemoryNeed(purpose, shape), availableMemoryBytes);
  if (shortage !== undefined) problems.push(shortage);
  return problems;
}
