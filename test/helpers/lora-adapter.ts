import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { safetensors, type TestTensor } from "./safetensors.ts";

export const adapterConfig = { peft_type: "LORA", r: 1, lora_alpha: 2, target_modules: ["q_proj"] };
const half: TestTensor = { dtype: "F32", shape: [1], bytes: [1, 2, 3, 4] };
export const adapterTensors: Record<string, TestTensor> = {
  "base_model.model.first.lora_A.weight": half,
  "base_model.model.first.lora_B.weight": half,
};

/** A LoRA adapter in PEFT's format, or one with some of its files replaced. */
export function writeAdapter(
  folder: string,
  base: string,
  files: Record<string, string | Uint8Array | undefined> = {},
): string {
  mkdirSync(folder, { recursive: true });
  const all = {
    "adapter_config.json": JSON.stringify({ ...adapterConfig, base_model_name_or_path: base }),
    "adapter_model.safetensors": safetensors(adapterTensors),
    ...files,
  };
  for (const [name, content] of Object.entries(all)) {
    if (content !== undefined) writeFileSync(join(folder, name), content);
  }
  return folder;
}
