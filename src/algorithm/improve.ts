import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { adaptProxySpans } from "../adapter/proxy-adapter.ts";
import { proveCheckpoint, publishCheckpoint } from "../engine/checkpoint.ts";
import type { Trainer, TrainResult } from "../engine/trainer.ts";
import type { EngineCheckpoint, VllmEngine } from "../engine/vllm.ts";
import { AglError, messageOf } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { StoreApi } from "../protocol/store-api.ts";
import type { JsonObject } from "../protocol/types.ts";
import { proxyResource } from "../proxy/resource.ts";
import type { Upstream } from "../proxy/upstreams.ts";
import type { RunFolder } from "../run-folder.ts";
import { summariseTraining, summariseValidation } from "./evaluation.ts";
import type { ModelSettings } from "./model-settings.ts";
import { createRandom } from "./random.ts";
import { bestVersion, type IterationReport, type Report, type VersionReport, writeReport } from "./report.ts";
import { type FinishedRollout, type RolloutProgress, runRollouts } from "./rollouts.ts";
import type { Row } from "./rows.ts";
import { selectRows } from "./select.ts";
import { assertNewWeights, differenceToServed, type ServedDifference } from "./served-weights.ts";
import { Stopwatch } from "./stopwatch.ts";

export interface ImprovementSettings {
  iterations: number;
  seed: number;
  profile: "cpu" | "cuda";
  between: "swap" | "restart";
  rule: "above-mean" | "recipe";
  fraction: number;
  shuffleRewards: boolean;
  attemptTimeoutSeconds: number;
  phaseTimeoutSeconds: number;
  trainerThreads: number;
  maxModelLen: number;
  model: ModelSettings;
  modelName: string;
}

export interface Improvement {
  settings: ImprovementSettings;
  store: StoreApi;
  proxy: {
    /** As agents reach it, ending in /v1. */
    endpoint: string;
    setUpstreams(upstreams: Upstream[]): Promise<void>;
    flush(deadlineMs: number): Promise<void>;
  };
  engine: VllmEngine;
  startTrainer: () => Trainer;
  tasks: { train: unknown[]; validation: unknown[] };
  base: EngineCheckpoint;
  folder: RunFolder;
  signal: AbortSignal;
  log: Logger;
  /** Lines for the user. */
  say: (line: string) => void;
  onProgress: (phase: string, progress: RolloutProgress) => void;
  onVersion: (version: VersionReport) => void;
  onIteration: (iteration: IterationReport) => void;
}

const flushMs = 30_000;

/**
 * The loop: evaluate the base, then each iteration rolls out, scores, selects, trains, swaps and evaluates. A round
 * with nothing to learn from makes no version; the next one goes on with the current checkpoint.
 */
export async function improve(run: Improvement, report: Report): Promise<Report> {
  let current = run.base;
  const save = () => writeReport(run.folder.path, report);
  await serve(run, current);
  const before = new Stopwatch();
  report.versions.push(await before.time("evaluate", () => evaluate(run, 0, current)));
  Object.assign(report.seconds, before.seconds);
  save();
  for (let iteration = 1; iteration <= run.settings.iterations; iteration++) {
    const outcome = await iterate(run, iteration, current);
    report.iterations.push(outcome.report);
    if (outcome.next !== undefined) {
      current = outcome.next;
      const clock = new Stopwatch(outcome.report.seconds);
      report.versions.push(await clock.time("evaluate", () => evaluate(run, iteration, current)));
    }
    report.best = bestVersion(report.versions)?.version ?? 0;
    run.onIteration(outcome.report);
    save();
  }
  return report;
}

async function serve(run: Improvement, checkpoint: EngineCheckpoint): Promise<void> {
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

async function evaluate(
  run: Improvement,
  version: number,
  checkpoint: EngineCheckpoint,
): Promise<VersionReport> {
  const sampling = run.settings.model.sampling_parameters;
  const phase = async (name: "greedy" | "sampled", parameters: JsonObject) => {
    const rollouts = await rollOut(run, {
      tasks: run.tasks.validation,
      mode: "val",
      sampling: { ...sampling, ...parameters },
      metadata: { purpose: `validation-${name}`, version },
      label: `version_${version} validation ${name}`,
    });
    return summariseValidation(rollouts);
  };
  const greedy = await phase("greedy", { temperature: 0 });
  const sampled = await phase("sampled", { temperature: 1, top_p: 1 });
  const found: VersionReport = { version, path: checkpoint.path, validation: { greedy, sampled } };
  run.onVersion(found);
  return found;
}

interface RollOut {
  tasks: unknown[];
  mode: "train" | "val";
  sampling: JsonObject;
  metadata: JsonObject;
  label: string;
}

async function rollOut(run: Improvement, what: RollOut): Promise<FinishedRollout[]> {
  const resource = proxyResource(run.proxy.endpoint, run.settings.modelName, what.sampling);
  const { resources_id } = await run.store.addResources({ main_llm: resource });
  return await runRollouts({
    store: run.store,
    tasks: what.tasks,
    mode: what.mode,
    resourcesId: resources_id,
    metadata: what.metadata,
    config: {
      // The runner ends an attempt itself; these free one whose runner is gone.
      timeout_seconds: run.settings.attemptTimeoutSeconds + 60,
      unresponsive_seconds: 120,
    },
    timeoutSeconds: run.settings.phaseTimeoutSeconds,
    signal: run.signal,
    onProgress: (progress) => run.onProgress(what.label, progress),
  });
}

async function iterate(
  run: Improvement,
  iteration: number,
  current: EngineCheckpoint,
): Promise<{ report: IterationReport; next?: EngineCheckpoint }> {
  const { settings } = run;
  const clock = new Stopwatch();
  // The trainer's imports take half of its time; they need no GPU and can run beside the rollouts.
  const trainer = run.startTrainer();
  try {
    const rollouts = await clock.time("rollouts", () =>
      rollOut(run, {
        tasks: createRandom(settings.seed * 1_000 + iteration).shuffle([...run.tasks.train]),
        mode: "train",
        sampling: settings.model.sampling_parameters,
        metadata: { purpose: "train", iteration },
        label: `iteration ${iteration} rollouts`,
      }),
    );
    const selection = await clock.time("rows", async () => select(run, iteration, rollouts));
    const report = describeRound(iteration, rollouts, selection, clock.seconds);
    if (selection.noUpdate !== undefined) return { report: { ...report, reason: selection.noUpdate } };
    const trained = await clock.time("train", () => train(run, trainer, iteration, current, selection.kept));
    report.training = {
      steps: trained.result.steps,
      loss_before: trained.result.loss_before,
      loss_after: trained.result.loss_after,
    };
    report.served = await clock.time("swap", () => replaceWeights(run, trained.checkpoint, trained.result));
    report.updated = true;
    return { report, next: trained.checkpoint };
  } finally {
    await trainer.stop();
  }
}

function select(run: Improvement, iteration: number, rollouts: FinishedRollout[]) {
  const { rule, fraction, seed, shuffleRewards, maxModelLen, model } = run.settings;
  return selectRows({
    rollouts: rollouts.map(({ rollout, spans }) => ({
      rollout_id: rollout.rollout_id,
      status: rollout.status,
      ...adaptProxySpans(spans),
    })),
    rule,
    fraction,
    seed: seed * 1_000 + iteration,
    shuffleRewards,
    maxLength: Math.min(maxModelLen, model.training.max_length),
  });
}

function describeRound(
  iteration: number,
  rollouts: FinishedRollout[],
  selection: ReturnType<typeof select>,
  seconds: Record<string, number>,
): IterationReport {
  const failures = countBy(rollouts.map(({ failure }) => failure).filter((failure) => failure !== undefined));
  const failed = Object.values(failures).reduce((sum, count) => sum + count, 0);
  return {
    iteration,
    rollouts: rollouts.length,
    succeeded: rollouts.length - failed,
    failed,
    failures,
    without_calls: rollouts.filter(({ failure, spans }) => failure === undefined && !hasCall(spans)).length,
    reward: summariseTraining(rollouts),
    rows: { kept: selection.noUpdate === undefined ? selection.kept.length : 0, dropped: selection.dropped },
    seconds,
    updated: false,
  };
}

function countBy(names: string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}

function hasCall(spans: FinishedRollout["spans"]): boolean {
  return spans.some(({ name }) => name === "raw_gen_ai_request");
}

async function train(
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

async function replaceWeights(
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
  await serve(run, checkpoint);
  return { method, ...difference };
}
