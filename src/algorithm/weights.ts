import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { proveCheckpoint, publishCheckpoint } from "../engine/checkpoint.ts";
import type { Trainer, TrainResult } from "../engine/trainer.ts";
import type { EngineCheckpoint } from "../engine/vllm.ts";
import { AglError, messageOf } from "../errors.ts";
import type { Improvement } from "./improvement.ts";
import type { Row } from "./rows.ts";
import { assertNewWeights, differenceToServed, type ServedDifference } from "./served-weights.ts";

const flushMs = 30_000;

/** Makes the engine, with this checkpoint in it, what the proxy forwards to. */
export async function serveThroughProxy(run: Improvement, checkpoint: EngineCheckpoint): Promise<void> {
  const { origin, unixSocket } = run.engine.address;
  await run.proxy.setUpstreams([
    {
      modelName: run.settings.modelName,
      model: run.settings.modelName,
      baseUrl: `${origin}/v1`,
      ...(unixSocket === undefined ? {} : { unixSocket }),
      checkpoint: checkpoint.name,
      provider: "hosted_vllm",
    },
  ]);
}

/** Trains on the rows and publishes the result as `models/version_N`, proven; until then it has a temporary name. */
export async function trainVersion(
  run: Improvement,
  trainer: Trainer,
  iteration: number,
  current: EngineCheckpoint,
  rows: Row[],
): Promise<{ checkpoint: EngineCheckpoint; result: TrainResult }> {
  const { settings, folder } = run;
  run.signal.throwIfAborted();
  const name = `version_${iteration}`;
  const work = join(folder.work, name);
  mkdirSync(work, { recursive: true });
  const rowsFile = join(work, "rows.jsonl");
  writeFileSync(rowsFile, rows.map((row) => JSON.stringify(row) + "\n").join(""));
  const { max_length, ...hyper } = settings.model.training;
  const temporary = join(folder.models, `.${name}.incomplete`);
  run.say(`${name}: training on ${rows.length} rows`);
  const result = await trainer.train({
    base: current.path,
    output: temporary,
    rows: rowsFile,
    profile: settings.profile,
    seed: settings.seed,
    max_length: Math.min(settings.maxModelLen, max_length),
    hyper,
    threads: settings.trainerThreads,
    progress: join(work, "progress.jsonl"),
  });
  const manifest = await proveCheckpoint({ base: current.path, candidate: temporary });
  const path = join(folder.models, name);
  await publishCheckpoint(temporary, path, manifest);
  return { checkpoint: { path, name }, result };
}

/** Puts the new weights into the engine and checks, by log-probabilities, that it serves them. */
export async function replaceWeights(
  run: Improvement,
  checkpoint: EngineCheckpoint,
  result: TrainResult,
): Promise<{ method: "swap" | "restart" } & ServedDifference> {
  run.say(`${checkpoint.name}: swapping the weights`);
  await run.proxy.flush(flushMs);
  await run.proxy.setUpstreams([]);
  let method = run.settings.between;
  if (method === "swap") {
    try {
      await run.engine.swap(checkpoint);
    } catch (error) {
      if (run.signal.aborted) throw error;
      run.say(`the weights could not be swapped (${messageOf(error)}); restarting the engine`);
      method = "restart";
    }
  }
  if (method === "restart") {
    await run.engine.stop();
    await run.engine.start(checkpoint, run.signal);
  }
  const { modelName } = run.settings;
  const client = run.engine.client;
  if (result.probes.length === 0)
    throw new AglError("trainer", "the trainer gave no log-probabilities to check with");
  const difference = await differenceToServed(result.probes, (ids) =>
    client.promptLogprobs(modelName, ids, 120_000),
  );
  assertNewWeights(difference);
  await serveThroughProxy(run, checkpoint);
  return { method, ...difference };
}
