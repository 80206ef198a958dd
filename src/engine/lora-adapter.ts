import { existsSync, readFileSync, realpathSync } from "node:fs";
import { join } from "node:path";
import * as v from "valibot";
import { messageOf } from "../errors.ts";
import { readTensors } from "./safetensors.ts";

/** Inside a checkpoint: its LoRA adapter by itself, in PEFT's format, as `trainer/lora_adapter.py` writes it. */
export const adapterFolder = "adapter";

const configFile = "adapter_config.json";
const weightsFile = "adapter_model.safetensors";
const configSchema = v.object({
  base_model_name_or_path: v.string(),
  peft_type: v.literal("LORA"),
  r: v.pipe(v.number(), v.integer(), v.minValue(1)),
});

/** What keeps PEFT from loading the folder onto this base; undefined when nothing does. */
export function adapterProblem(folder: string, base: string): string | undefined {
  for (const name of [configFile, weightsFile]) {
    if (!existsSync(join(folder, name))) return `lacks ${name}`;
  }
  return configProblem(join(folder, configFile), base) ?? weightsProblem(join(folder, weightsFile));
}

function configProblem(file: string, base: string): string | undefined {
  let config: v.InferOutput<typeof configSchema>;
  try {
    config = v.parse(configSchema, JSON.parse(readFileSync(file, "utf8")));
  } catch (error) {
    return `has a ${configFile} that describes none: ${messageOf(error)}`;
  }
  const named = config.base_model_name_or_path;
  if (existsSync(named) && realpathSync(named) === realpathSync(base)) return undefined;
  return `names another base, ${named}`;
}

function weightsProblem(file: string): string | undefined {
  let names: Set<string>;
  try {
    names = new Set(readTensors(file).keys());
  } catch (error) {
    return `has a ${weightsFile} that is not whole: ${messageOf(error)}`;
  }
  const halves = [...names].filter((name) => name.includes(".lora_A."));
  if (halves.length === 0) return `has a ${weightsFile} without weights of LoRA`;
  const lone = halves.find((name) => !names.has(name.replace(".lora_A.", ".lora_B.")));
  return lone === undefined ? undefined : `has ${lone} without its lora_B`;
}
