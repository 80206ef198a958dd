import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readModelSettings } from "../../src/algorithm/model-settings.ts";
import { UsageError } from "../../src/errors.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const folder = temporaryFolder();
let number = 0;

function model(config: unknown, settings?: unknown): string {
  const path = join(folder, `model-${++number}`);
  mkdirSync(path);
  writeFileSync(join(path, "config.json"), JSON.stringify(config));
  if (settings !== undefined) writeFileSync(join(path, "agl-model.json"), JSON.stringify(settings));
  return path;
}

// Serving more positions than the model has is refused by the model server, minutes later.
test("a model without settings gets the recipe's, and no longer context than it was made for", () => {
  const path = model({ max_position_embeddings: 2048 });
  expect(readModelSettings(path)).toMatchObject({
    served_name: `model-${number}`,
    max_model_len: 2048,
    training: { lora_r: 32, learning_rate: 2e-4 },
  });
  const nested = model({ text_config: { max_position_embeddings: 512 } });
  expect(readModelSettings(nested).max_model_len).toBe(512);
  expect(readModelSettings(model({ max_position_embeddings: 1_000_000 })).max_model_len).toBe(32_768);
  expect(readModelSettings(model({})).max_model_len).toBe(32_768);
});

test("what the model's own settings say counts", () => {
  const path = model({ max_position_embeddings: 2048 }, { max_model_len: 1024, served_name: "small" });
  expect(readModelSettings(path)).toMatchObject({ served_name: "small", max_model_len: 1024 });
});

test.each([
  [{ max_model_lenn: 3 }, "there is no field max_model_lenn; did you mean max_model_len?"],
  [{ training: { lora_rr: 3 } }, "there is no field training.lora_rr; did you mean lora_r?"],
  [{ training: { epochs: 0 } }, "field training.epochs: "],
])("a slip is refused with the nearest name: %j", (settings, message) => {
  const read = () => readModelSettings(model({}, settings));
  expect(read).toThrow(UsageError);
  expect(read).toThrow(message);
});
