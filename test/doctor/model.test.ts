import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { checkModel, modelBytes } from "../../src/doctor/model.ts";
import { publishCheckpoint } from "../../src/engine/checkpoint.ts";
import { modelFolder } from "../helpers/model-folder.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const use = { profile: "cpu", availableMemoryBytes: 8e9 } as const;

test("a whole model is told with its size and the context that will be served", () => {
  const folder = modelFolder();
  expect(checkModel(folder, temporaryFolder(), 512, use)).toEqual([
    { status: "ok", message: `${folder}: 0.0 million parameters, 0.0 MB, context 512` },
  ]);
  expect(modelBytes(folder, temporaryFolder())).toBe(8);
});

test("everything that is wrong with a folder is told, each with its remedy", () => {
  const folder = modelFolder({ "tokenizer.json": undefined, "chat_template.jinja": undefined });
  const findings = checkModel(folder, temporaryFolder(), undefined, use);
  expect(findings.map(({ status }) => status)).toEqual(["problem", "problem"]);
  expect(findings.every(({ remedy }) => remedy !== undefined)).toBe(true);
});

test("a model of the hub is a warning until it was fetched", async () => {
  const cache = temporaryFolder();
  expect(checkModel("acme/tiny", cache, undefined, use)[0]?.status).toBe("warning");
  expect(modelBytes("acme/tiny", cache)).toBe(0);
  const final = join(cache, "models", "acme", "main", "tiny");
  mkdirSync(dirname(final), { recursive: true });
  await publishCheckpoint(modelFolder(), final);
  expect(checkModel("acme/tiny", cache, 512, use)[0]?.status).toBe("ok");
});

test("a slip in the model's own settings is a problem, as it would stop the run", () => {
  const folder = modelFolder();
  writeFileSync(join(folder, "agl-model.json"), '{"max_model_length": 5}');
  expect(() => checkModel(folder, temporaryFolder(), undefined, use)).toThrow("max_model_len");
});
