import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { safetensors, type TestTensor } from "./safetensors.ts";
import { temporaryFolder } from "./temporary-folder.ts";

export const causalConfig = {
  architectures: ["Qwen3ForCausalLM"],
  num_hidden_layers: 4,
  num_attention_heads: 8,
  num_key_value_heads: 2,
  hidden_size: 64,
  head_dim: 16,
};

const tensor: TestTensor = { dtype: "BF16", shape: [2, 2], bytes: [1, 2, 3, 4, 5, 6, 7, 8] };

/** A folder that is a whole model, with changes: undefined leaves a file out. */
export function modelFolder(changes: Record<string, string | Uint8Array | undefined> = {}): string {
  const folder = join(temporaryFolder(), "model");
  mkdirSync(folder);
  const files = {
    "config.json": JSON.stringify(causalConfig),
    "tokenizer.json": "{}",
    "chat_template.jinja": "{{ messages }}",
    "model.safetensors": safetensors({ weight: tensor }),
    ...changes,
  };
  for (const [name, content] of Object.entries(files)) {
    if (content !== undefined) writeFileSync(join(folder, name), content);
  }
  return folder;
}

/** The header of a file with so many 16-bit parameters; its data is a hole, which takes no space. */
export function hollowWeights(parameters: number): { header: Uint8Array; length: number } {
  const entry = { dtype: "BF16", shape: [parameters], data_offsets: [0, parameters * 2] };
  const text = Buffer.from(JSON.stringify({ weight: entry }));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(text.length));
  return { header: Buffer.concat([size, text]), length: 8 + text.length + parameters * 2 };
}
