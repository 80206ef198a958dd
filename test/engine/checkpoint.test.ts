import { expect, test } from "bun:test";
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { isStableCheckpoint, proveCheckpoint, publishCheckpoint } from "../../src/engine/checkpoint.ts";
import { writeAdapter } from "../helpers/lora-adapter.ts";
import { safetensors, type TestTensor } from "../helpers/safetensors.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const smallModel = join(import.meta.dir, "..", "..", "data", "small-model");
const first: TestTensor = { dtype: "BF16", shape: [2, 2], bytes: [1, 2, 3, 4, 5, 6, 7, 8] };
const second: TestTensor = { dtype: "F32", shape: [1], bytes: [9, 9, 9, 9] };
const trained: TestTensor = { ...first, bytes: [1, 2, 3, 4, 5, 6, 7, 9] };

function model(files: Record<string, string | Uint8Array>): string {
  const folder = join(temporaryFolder(), "model");
  mkdirSync(folder);
  const common = { "config.json": "{}", "tokenizer.json": "{1}", "chat_template.jinja": "{{ x }}" };
  for (const [name, content] of Object.entries({ ...common, ...files }))
    writeFileSync(join(folder, name), content);
  return folder;
}

const base = () => model({ "model.safetensors": safetensors({ first, second }) });
const candidate = (files: Record<string, string | Uint8Array> = {}) =>
  model({ "model.safetensors": safetensors({ first: trained, second }), ...files });

function withAdapter(of: string): string {
  const folder = candidate();
  writeAdapter(join(folder, "adapter"), of);
  return folder;
}

test("a trained folder is proven, with what changed", async () => {
  const manifest = await proveCheckpoint({
    base: base(),
    candidate: candidate({ "agl-manifest.json": "{}" }),
  });
  expect(manifest.tensors).toEqual({ total: 2, changed: 1 });
  expect(manifest.digest).not.toBe(manifest.base_digest);
  expect(Object.keys(manifest.files)).toContain("model.safetensors");
});

test("the digest is of the tensors, not of the files they lie in", async () => {
  const sharded = (tensor: TestTensor) =>
    model({
      "model-1.safetensors": safetensors({ second }),
      "model-2.safetensors": safetensors({ first: tensor }),
      "model.safetensors.index.json": JSON.stringify({
        weight_map: { first: "model-2.safetensors", second: "model-1.safetensors" },
      }),
    });
  const whole = await proveCheckpoint({ base: base(), candidate: candidate() });
  const inShards = await proveCheckpoint({ base: base(), candidate: sharded(trained) });
  expect(inShards.digest).toBe(whole.digest);
  await expect(proveCheckpoint({ base: base(), candidate: sharded(first) })).rejects.toThrow(
    "equal the base's",
  );
});

test("weights that equal the base's are refused", async () => {
  await expect(proveCheckpoint({ base: base(), candidate: base() })).rejects.toThrow(
    /is refused: its weights equal the base's/,
  );
});

const wrong: [string, Record<string, string | Uint8Array>, string][] = [
  [
    "a cut file",
    { "model.safetensors": safetensors({ first: trained, second }).slice(0, -1) },
    "bytes instead of",
  ],
  [
    "a file that is too long",
    { "model.safetensors": new Uint8Array([...safetensors({ first }), 0]) },
    "bytes instead of",
  ],
  ["an empty file", { "model.safetensors": "" }, "it is cut off"],
  ["a cut header", { "model.safetensors": safetensors({ first }).slice(0, 20) }, "its header is cut off"],
  [
    "a missing tensor",
    { "model.safetensors": safetensors({ first: trained }) },
    "tensor second of the base is missing",
  ],
  [
    "a tensor too many",
    { "model.safetensors": safetensors({ first: trained, second, third: second }) },
    "tensor third is not in the base",
  ],
  [
    "another shape",
    { "model.safetensors": safetensors({ first: { ...trained, shape: [4] }, second }) },
    "tensor first is BF16 [4], in the base BF16 [2, 2]",
  ],
  [
    "another type",
    { "model.safetensors": safetensors({ first: { ...trained, dtype: "F16" }, second }) },
    "tensor first is F16 [2, 2], in the base BF16 [2, 2]",
  ],
  [
    "sizes that do not fit",
    { "model.safetensors": safetensors({ first: { ...trained, shape: [3] }, second }) },
    "tensor first has 8 bytes, which is not BF16 [3]",
  ],
  ["another tokenizer", { "tokenizer.json": "{2}" }, "tokenizer.json differs from the base's"],
  [
    "another chat template",
    { "chat_template.jinja": "{{ y }}" },
    "chat_template.jinja differs from the base's",
  ],
  ["another configuration", { "config.json": "{ }" }, "config.json differs from the base's"],
  ["a file that the base lacks", { "added_tokens.json": "{}" }, "added_tokens.json is not in the base"],
  [
    "a missing shard",
    { "model.safetensors.index.json": JSON.stringify({ weight_map: { first: "model-2.safetensors" } }) },
    "model-2.safetensors, named in model.safetensors.index.json, is missing",
  ],
];

test.each(wrong)("%s is refused", async (_, files, message) => {
  await expect(proveCheckpoint({ base: base(), candidate: candidate(files) })).rejects.toThrow(message);
});

test("a folder without weights, and one that is not there, are refused", async () => {
  const empty = join(temporaryFolder(), "empty");
  mkdirSync(empty);
  await expect(proveCheckpoint({ base: base(), candidate: empty })).rejects.toThrow("holds no weights");
  await expect(proveCheckpoint({ base: base(), candidate: `${empty}-not` })).rejects.toThrow(
    "does not exist",
  );
});

test("a missing tokenizer is refused", async () => {
  const without = join(temporaryFolder(), "candidate");
  mkdirSync(without);
  for (const name of ["model.safetensors", "config.json", "chat_template.jinja"])
    writeFileSync(join(without, name), readFileSync(join(candidate(), name)));
  await expect(proveCheckpoint({ base: base(), candidate: without })).rejects.toThrow(
    "tokenizer.json of the base is missing",
  );
});

test("the small model is a base, and one changed byte of it a checkpoint", async () => {
  const copy = join(temporaryFolder(), "copy");
  cpSync(smallModel, copy, { recursive: true });
  await expect(proveCheckpoint({ base: smallModel, candidate: copy })).rejects.toThrow("equal the base's");
  const weights = readFileSync(join(copy, "model.safetensors"));
  weights[weights.length - 1]! ^= 1;
  writeFileSync(join(copy, "model.safetensors"), weights);
  const manifest = await proveCheckpoint({ base: smallModel, candidate: copy });
  expect(manifest.tensors).toEqual({ total: 57, changed: 1 });
});

test("a published checkpoint is stable until a file of it is cut", async () => {
  const temporary = candidate();
  const final = join(temporaryFolder(), "version_1");
  expect(isStableCheckpoint(temporary)).toBe(false);
  await publishCheckpoint(temporary, final);
  expect(existsSync(temporary)).toBe(false);
  expect(readdirSync(final)).toContain("STABLE");
  expect(isStableCheckpoint(final)).toBe(true);
  truncateSync(join(final, "model.safetensors"), 10);
  expect(isStableCheckpoint(final)).toBe(false);
});

test("the manifest is kept in the marker", async () => {
  const temporary = candidate();
  const final = join(temporaryFolder(), "version_1");
  const manifest = await proveCheckpoint({ base: base(), candidate: temporary });
  await publishCheckpoint(temporary, final, manifest);
  expect(JSON.parse(readFileSync(join(final, "STABLE"), "utf8"))).toEqual(manifest);
  expect(isStableCheckpoint(final)).toBe(true);
});

test("a published checkpoint can be the next base, marker and manifest stay behind", async () => {
  const final = join(temporaryFolder(), "version_1");
  await publishCheckpoint(candidate({ "agl-manifest.json": "{}" }), final);
  const next = model({
    "model.safetensors": safetensors({ first: { ...first, bytes: [0, 0, 0, 0, 0, 0, 0, 0] }, second }),
  });
  expect((await proveCheckpoint({ base: final, candidate: next })).tensors.changed).toBe(1);
});

test("a LoRA adapter beside the weights is proven and belongs to what was published", async () => {
  const before = base();
  const temporary = withAdapter(before);
  const manifest = await proveCheckpoint({ base: before, candidate: temporary, adapter: true });
  expect(Object.keys(manifest.files)).toContain("adapter/adapter_model.safetensors");
  const final = join(temporaryFolder(), "version_1");
  await publishCheckpoint(temporary, final, manifest);
  expect(isStableCheckpoint(final)).toBe(true);
  truncateSync(join(final, "adapter", "adapter_model.safetensors"), 10);
  expect(isStableCheckpoint(final)).toBe(false);
});

test("the adapter of a base is not asked of what is trained from it", async () => {
  const first = base();
  const before = withAdapter(first);
  await expect(proveCheckpoint({ base: before, candidate: base(), adapter: false })).resolves.toBeDefined();
});

test("an adapter that was asked for and is not there is refused", async () => {
  await expect(proveCheckpoint({ base: base(), candidate: candidate(), adapter: true })).rejects.toThrow(
    "its LoRA adapter lacks adapter_config.json",
  );
});

test("nothing is ever overwritten", async () => {
  const final = join(temporaryFolder(), "version_1");
  mkdirSync(final);
  const temporary = candidate();
  await expect(publishCheckpoint(temporary, final)).rejects.toThrow(
    "exists already and is never overwritten",
  );
  expect(existsSync(join(temporary, "model.safetensors"))).toBe(true);
});

test("a folder whose publishing was cut short is not stable", () => {
  const folder = candidate({ "STABLE.incomplete": "{}" });
  expect(isStableCheckpoint(folder)).toBe(false);
  writeFileSync(join(folder, "STABLE"), "{");
  expect(isStableCheckpoint(folder)).toBe(false);
});
