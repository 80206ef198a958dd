import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readModelSettings } from "../../src/algorithm/model-settings.ts";
import { freePort } from "../../src/engine/port-owner.ts";
import { VllmEngine } from "../../src/engine/vllm.ts";
import { silentLogger } from "../../src/log.ts";

const root = join(import.meta.dir, "..", "..");
const folder = join(root, "data", "small-model");

export const smallModel = readModelSettings(folder);

export interface ServedModel {
  /** Ends in `/v1`. */
  baseUrl: string;
  model: string;
  /** Of the environment that serves it. */
  python: string;
}

const shared = globalThis as { agl_small_engine?: Promise<ServedModel> };

/**
 * The small model on real vLLM, started once for all files of one test process; it ends with that process.
 * AGL_PYTHON names an environment with vLLM.
 */
export function smallEngine(): Promise<ServedModel> {
  return (shared.agl_small_engine ??= start());
}

async function start(): Promise<ServedModel> {
  const python = process.env["AGL_PYTHON"];
  if (python === undefined) throw new Error("set AGL_PYTHON to the Python of an environment with vLLM");
  const port = freePort();
  const scratch = mkdtempSync(join(tmpdir(), "agl-small-engine-"));
  const engine = new VllmEngine({
    python,
    profile: "cpu",
    modelName: smallModel.served_name,
    maxModelLen: smallModel.max_model_len,
    port,
    folder: scratch,
    logFile: join(scratch, "engine.log"),
    log: silentLogger,
  });
  await engine.start({ path: folder, name: "version_0" });
  return { baseUrl: `http://127.0.0.1:${port}/v1`, model: smallModel.served_name, python };
}

/** The first tasks of the validation set. */
export function validationTasks(count: number): { input: string; target: number }[] {
  return readFileSync(join(root, "data", "tasks", "validation.jsonl"), "utf8")
    .split("\n")
    .slice(0, count)
    .map((line) => JSON.parse(line) as { input: string; target: number });
}
