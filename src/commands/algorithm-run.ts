import { join } from "node:path";
import { version as programVersion } from "../../package.json" with { type: "json" };
import { messagesAdapter, traceAdapters } from "../adapter/adapters.ts";
import type {
  Algorithm,
  AlgorithmContext,
  AlgorithmEngine,
  AlgorithmSettings,
} from "../algorithm/algorithm.ts";
import { ExternalEngine } from "../algorithm/external-engine.ts";
import { GpuHandOver } from "../algorithm/gpu-hand-over.ts";
import { improve } from "../algorithm/improve.ts";
import { ManagedEngine } from "../algorithm/managed-engine.ts";
import { writeReport } from "../algorithm/report.ts";
import { Stopwatch } from "../algorithm/stopwatch.ts";
import type { StoreAddress } from "../client/store-address.ts";
import type { Config, ResolvedConfig } from "../config.ts";
import { startTrainer } from "../engine/trainer.ts";
import { GpuMemory } from "../engine/gpu-memory.ts";
import type { EngineAddress, VllmEngine } from "../engine/vllm.ts";
import { createLogger } from "../log.ts";
import { createRunFolder } from "../run-folder.ts";
import { algorithmSettings } from "./algorithm-settings.ts";
import { loadAlgorithm } from "./load-algorithm.ts";
import { type Inputs, readInputs } from "./inputs.ts";
import { PhaseLines, TrainingLines } from "./phase-lines.ts";
import { preparePython } from "./python.ts";
import { describeIteration, describeVersion, printResult } from "./run-lines.ts";
import { RunnerPresence } from "./runner-presence.ts";
import {
  createVllm,
  joinProxy,
  joinStore,
  linkBase,
  type RunProxy,
  type RunStore,
  type ServiceContext,
  startProxy,
  startRunners,
  startStore,
  withoutProxy,
} from "./services.ts";
import { Shutdown } from "./shutdown.ts";
import { stopOnSignals } from "./stop-signals.ts";

export interface RunPlan {
  /** Start the runners, too; otherwise they are waited for in the store. */
  ownRunners: boolean;
  /** The store to use; one of the run's own when undefined. */
  storeUrl: string | undefined;
  /** Of that store, or for the run's own. */
  token: string | undefined;
  sources: ResolvedConfig["sources"];
  /** A user's algorithm; the built-in one when undefined. */
  algorithmFile?: string;
  /** One of ours instead. */
  algorithm?: Algorithm;
  /** Database of the run's own store; a file in its folder when undefined. */
  storePath?: string;
}

const secondsWithoutRunner = 60;

/** Starts the parts that the plan and the settings ask for, runs the algorithm, and stops what was started. */
export async function runAlgorithm(config: Config, plan: RunPlan): Promise<number> {
  const say = (line: string) => console.log(line);
  const stop = stopOnSignals(say);
  const shutdown = new Shutdown();
  // What is still under way when something failed has to end as well.
  const failed = new AbortController();
  try {
    const inputs = await readInputs(config, plan, { say, signal: stop.signal });
    const { algorithmFile, sources, token } = plan;
    const algorithm =
      algorithmFile === undefined ? (plan.algorithm ?? improve) : await loadAlgorithm(algorithmFile);
    const folder = createRunFolder(config.runs);
    const log = createLogger("agl", { level: config.log_level, file: join(folder.logs, "agl.log") });
    const signal = AbortSignal.any([stop.signal, failed.signal]);
    const storePath = plan.storePath ?? join(folder.path, "store.db");
    const context = { config, sources, token, folder, storePath, log, say, signal, shutdown };
    await run(inputs, algorithm, plan, context);
    return 0;
  } catch (error) {
    failed.abort(error);
    // A stop makes everything under way fail; the stop is the reason.
    throw stop.signal.aborted ? stop.signal.reason : error;
  } finally {
    await shutdown.run();
    stop.release();
  }
}

async function run(
  inputs: Inputs,
  algorithm: Algorithm,
  plan: RunPlan,
  context: ServiceContext,
): Promise<void> {
  const { folder, say, signal, config } = context;
  const clock = new Stopwatch();
  const settings = algorithmSettings(config, inputs);
  const { train, validation } = inputs.tasks;
  say(`agl ${programVersion}  run ${folder.path}  profile ${inputs.profile}  seed ${config.seed}`);
  say(`model ${settings.modelName}, ${train.length} training and ${validation.length} validation tasks`);
  const runStore =
    plan.storeUrl === undefined ? await startStore(context) : await joinStore(plan.storeUrl, context);
  const parts = await prepareParts(inputs, settings, runStore, clock, context);
  const runners = plan.ownRunners
    ? ownRunners(inputs, runStore, context)
    : foreignRunners(inputs, runStore, context);
  const settled = <Result>(work: Promise<Result>) =>
    Promise.race([work, runners.failed, parts.failed, aborted(signal)]);

  say(describeStart(parts.starting, plan.ownRunners));
  await settled(
    Promise.all([
      clock.time("engine_start", parts.start).then(() => say("engine: ready")),
      clock.time("runners_start", () => runners.ready).then(() => say("runners: ready")),
    ]),
  );
  const report = await settled(algorithm(algorithmContext(inputs, settings, runStore, parts, context)));
  if (report === undefined) {
    say(`run: ${folder.path}`);
    return;
  }
  report.seconds = { ...clock.seconds, ...report.seconds };
  writeReport(folder.path, report);
  printResult(report, folder, say);
}

function describeStart(engine: boolean, runners: boolean): string {
  const started = [engine ? "the engine" : undefined, runners ? "the runners" : undefined].filter(Boolean);
  return started.length === 0 ? "waiting for the runners" : `starting ${started.join(" and ")}`;
}

interface Parts {
  proxy: RunProxy;
  engine: AlgorithmEngine;
  /** Whether there is an engine of ours to start. */
  starting: boolean;
  start: () => Promise<void>;
  failed: Promise<never>;
}

async function prepareParts(
  inputs: Inputs,
  settings: AlgorithmSettings,
  { address: store }: RunStore,
  clock: Stopwatch,
  context: ServiceContext,
): Promise<Parts> {
  const { config } = context;
  const { modelName } = settings;
  if (config["engine.url"] !== undefined) {
    const address = externalAddress(config["engine.url"], config["engine.api_key"]);
    const proxy = await chooseProxy(modelName, store, () => address, context);
    const engine = new ExternalEngine(config["engine.url"]);
    return {
      proxy,
      engine,
      starting: false,
      start: () => proxy.route({ engine: address, checkpoint: engine.checkpoint }),
      failed: new Promise<never>(() => {}),
    };
  }
  const python = inputs.python ?? (await clock.time("setup", () => makePython(inputs, context)));
  const vllm = createVllm(settings, { python, gpuPlan: inputs.gpuPlan }, context);
  const proxy = await chooseProxy(modelName, store, () => vllm.address, context);
  const handOver = handOverGpu(settings, vllm, context);
  const engine = new ManagedEngine({
    ...context,
    settings,
    vllm,
    startTrainer: trainerStarter(inputs, python, context),
    route: (checkpoint) =>
      proxy.route(checkpoint === undefined ? undefined : { engine: vllm.address, checkpoint }),
    flush: () => proxy.flush(),
    ...(handOver === undefined ? {} : { handOver }),
    base: linkBase(inputs.modelFolder, context.folder),
  });
  context.shutdown.add("trainer", () => engine.stopTrainer());
  const failed = new Promise<never>((_, reject) => vllm.onDeath(reject));
  failed.catch(() => {});
  return { proxy, engine, starting: true, start: () => engine.start(), failed };
}

function makePython(inputs: Inputs, { config, log, say, signal }: ServiceContext): Promise<string> {
  const { profile, assets, cache } = inputs;
  return preparePython(config, { profile, assets, cache, log, say, signal });
}

function chooseProxy(
  modelName: string,
  store: StoreAddress,
  engine: () => EngineAddress,
  context: ServiceContext,
): RunProxy | Promise<RunProxy> {
  if (context.config["proxy.off"]) return withoutProxy(modelName, engine);
  if (context.config["proxy.url"] !== undefined) return joinProxy(modelName, context);
  return startProxy(modelName, store, context);
}

/** Engine and trainer take turns on a GPU; on the CPU both stay. */
function handOverGpu(
  { profile, between }: AlgorithmSettings,
  vllm: VllmEngine,
  { config, say, signal }: ServiceContext,
): GpuHandOver | undefined {
  if (profile === "cpu") return undefined;
  const limitMs = config["engine.memory_wait_seconds"] * 1000;
  return new GpuHandOver({ vllm, memory: new GpuMemory({ limitMs, say, signal }), between, signal, say });
}

function externalAddress(url: string, apiKey: string): EngineAddress {
  return { origin: url.replace(/\/v1$/, ""), apiKey };
}

function trainerStarter(inputs: Inputs, python: string, { config, folder, say, signal }: ServiceContext) {
  const lines = new TrainingLines(say);
  return () =>
    startTrainer({
      python,
      script: join(inputs.assets, "trainer", "sft.py"),
      profile: inputs.profile,
      workFolder: folder.work,
      logFile: join(folder.logs, "trainer.log"),
      timeoutMs: config["trainer.timeout_seconds"] * 1000,
      signal,
      onProgress: (progress) => lines.show(progress),
    });
}

interface Runners {
  ready: Promise<void>;
  /** Rejects when the run cannot go on for want of runners. */
  failed: Promise<never>;
}

function ownRunners(inputs: Inputs, store: RunStore, context: ServiceContext): Runners {
  return startRunners(inputs, store, context);
}

/** Runners of another terminal or host: seen by their heartbeats. */
function foreignRunners(
  inputs: Inputs,
  { store }: RunStore,
  { config, say, signal }: ServiceContext,
): Runners {
  const watch = (limitSeconds: number) =>
    new RunnerPresence({ store, agent: inputs.agentName, limitSeconds, say, signal });
  const ready = watch(config["runners.connect_seconds"]).untilPresent();
  const failed = ready.then(() => watch(secondsWithoutRunner).untilGone());
  failed.catch(() => {});
  return { ready, failed };
}

function algorithmContext(
  inputs: Inputs,
  settings: AlgorithmSettings,
  { store }: RunStore,
  { proxy, engine }: Parts,
  { config, folder, log, say, signal }: ServiceContext,
): AlgorithmContext {
  const phaseLines = new PhaseLines(say);
  return {
    settings,
    store,
    proxy,
    engine,
    adapter: traceAdapters[config.adapter],
    messages: messagesAdapter,
    ...inputs.tasks,
    resources: {},
    folder,
    signal,
    log,
    say,
    onProgress: (phase, progress) => phaseLines.show(phase, progress),
    onVersion: (version) => say(describeVersion(version)),
    onIteration: (iteration) => say(describeIteration(iteration)),
  };
}

function aborted(signal: AbortSignal): Promise<never> {
  const found = new Promise<never>((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
  found.catch(() => {});
  return found;
}
