import { expect, test } from "bun:test";
import { mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { adapterProblem } from "../../src/engine/lora-adapter.ts";
import { adapterConfig, adapterTensors, writeAdapter } from "../helpers/lora-adapter.ts";
import { safetensors } from "../helpers/safetensors.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const folder = temporaryFolder();
const base = join(folder, "base");
mkdirSync(base);
let number = 0;

function problem(files: Record<string, string | Uint8Array | undefined> = {}): string | undefined {
  return adapterProblem(writeAdapter(join(folder, `adapter-${++number}`), base, files), base);
}

test("a whole adapter of this base has no problem", () => {
  expect(problem()).toBeUndefined();
});

test("a link to the base is the base", () => {
  const link = join(folder, "version_0");
  symlinkSync(base, link);
  expect(adapterProblem(writeAdapter(join(folder, "linked"), base), link)).toBeUndefined();
});

const config = (changes: object) => JSON.stringify({ ...adapterConfig, ...changes });
const [down, up] = Object.entries(adapterTensors) as [[string, never], [string, never]];

const wrong: [string, Record<string, string | Uint8Array | undefined>, string | RegExp][] = [
  ["no configuration", { "adapter_config.json": undefined }, "lacks adapter_config.json"],
  ["no weights", { "adapter_model.safetensors": undefined }, "lacks adapter_model.safetensors"],
  [
    "a configuration that is no JSON",
    { "adapter_config.json": "{" },
    "adapter_config.json that describes none",
  ],
  [
    "another kind of adapter",
    { "adapter_config.json": config({ peft_type: "IA3", base_model_name_or_path: base }) },
    "adapter_config.json that describes none",
  ],
  [
    "another base",
    { "adapter_config.json": config({ base_model_name_or_path: folder }) },
    "names another base",
  ],
  [
    "a base that is not there",
    { "adapter_config.json": config({ base_model_name_or_path: "owner/name" }) },
    "names another base, owner/name",
  ],
  [
    "weights that are cut",
    { "adapter_model.safetensors": safetensors(adapterTensors).slice(0, -1) },
    "adapter_model.safetensors that is not whole",
  ],
  [
    "weights of something else",
    { "adapter_model.safetensors": safetensors({ other: down[1] }) },
    "without weights of LoRA",
  ],
  [
    "one half of a pair",
    { "adapter_model.safetensors": safetensors({ [down[0]]: down[1], other: up[1] }) },
    `has ${down[0]} without its lora_B`,
  ],
];

test.each(wrong)("%s is told", (_, files, message) => {
  expect(problem(files)).toMatch(message);
});
