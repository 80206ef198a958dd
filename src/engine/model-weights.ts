import { closeSync, existsSync, openSync, readFileSync, readSync } from "node:fs";
import { join } from "node:path";
import * as v from "valibot";
import { messageOf } from "../errors.ts";
import { readTensors } from "./safetensors.ts";

/** Something that keeps a model from being used, in one line, and what to do about it. */
export interface ModelProblem {
  message: string;
  remedy: string;
}

export interface WeightTotals {
  parameters: number;
  bytes: number;
}

const indexSchema = v.object({ weight_map: v.record(v.string(), v.string()) });
const numberedShard = /^model-\d{5}-of-\d{5}\.safetensors$/;
const pointerStart = "version https://git-lfs";

/** The weights of a model among its file names, without second copies in other formats or precisions. */
export function weightFiles(names: readonly string[]): string[] {
  const all = names.filter((name) => name.endsWith(".safetensors") && !name.startsWith("adapter_"));
  const usual = all.filter((name) => name === "model.safetensors" || numberedShard.test(name));
  return (usual.length > 0 ? usual : all).sort();
}

/** What is wrong with the kind of weights that a model brings, told from its file names alone. */
export function weightKindProblem(names: readonly string[], where: string): ModelProblem | undefined {
  if (weightFiles(names).length > 0) return undefined;
  if (names.includes("adapter_config.json")) {
    return {
      message: "it is only an adapter (adapter_config.json), without the weights of its base",
      remedy: `merge it: python -c "from peft import AutoPeftModelForCausalLM as M; M.from_pretrained('${where}').merge_and_unload().save_pretrained('MERGED')", copy the base's tokenizer and chat template into MERGED, and name that folder`,
    };
  }
  if (names.some((name) => name.endsWith(".gguf"))) {
    return {
      message: "its weights are GGUF, which can be served but not trained",
      remedy: "name the model that the GGUF file was made from, with *.safetensors",
    };
  }
  if (names.some((name) => /\.(bin|pt|pth|ckpt)$/.test(name))) {
    return {
      message: "its weights are pickles (*.bin), which may run code when they are loaded",
      remedy: `convert them: python -c "from transformers import AutoModelForCausalLM as M; M.from_pretrained('${where}').save_pretrained('CONVERTED')", copy its tokenizer and chat template into CONVERTED, and name that folder`,
    };
  }
  return {
    message: "it holds no weights (*.safetensors)",
    remedy: "name a complete folder in Hugging Face's layout, or a model of the hub",
  };
}

/** Whether every file of the weights is there and whole; reads headers only. */
export function measureWeights(
  folder: string,
  names: readonly string[],
): { totals: WeightTotals; problems: ModelProblem[] } {
  const totals: WeightTotals = { parameters: 0, bytes: 0 };
  const problems: ModelProblem[] = [];
  const incomplete = (message: string, remedy = "copy or download the model again") =>
    problems.push({ message, remedy });
  const files = weightFiles(names);
  for (const name of shardsOf(folder, files, incomplete)) {
    if (!names.includes(name)) incomplete(`${name} is missing: the weights are incomplete`);
    else if (isPointer(join(folder, name)))
      incomplete(`${name} is only a pointer of git-lfs`, `run \`git lfs pull\` in ${folder}`);
    else addTensors(join(folder, name), totals, (why) => incomplete(`${name} is incomplete: ${why}`));
  }
  return { totals, problems };
}

function shardsOf(folder: string, files: string[], incomplete: (message: string) => void): string[] {
  const index = join(folder, "model.safetensors.index.json");
  if (existsSync(index)) {
    const parsed = v.safeParse(indexSchema, readJson(index));
    if (parsed.success) return [...new Set(Object.values(parsed.output.weight_map))].sort();
    incomplete("model.safetensors.index.json is no index of weights");
  } else if (files.some((name) => numberedShard.test(name))) {
    incomplete("model.safetensors.index.json, which says what each of the weight files holds, is missing");
  }
  return files;
}

function addTensors(file: string, totals: WeightTotals, incomplete: (why: string) => void): void {
  try {
    for (const { shape, start, end } of readTensors(file).values()) {
      totals.parameters += shape.reduce((product, size) => product * size, 1);
      totals.bytes += end - start;
    }
  } catch (error) {
    incomplete(messageOf(error));
  }
}

function isPointer(file: string): boolean {
  const descriptor = openSync(file, "r");
  try {
    const bytes = Buffer.alloc(pointerStart.length);
    readSync(descriptor, bytes, 0, bytes.length, 0);
    return bytes.toString("latin1") === pointerStart;
  } finally {
    closeSync(descriptor);
  }
}

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return undefined;
  }
}
