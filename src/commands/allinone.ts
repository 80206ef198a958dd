import { symlinkSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join, resolve } from "node:path";
import { version as programVersion } from "../../package.json" with { type: "json" };
import { improve } from "../algorithm/improve.ts";
import type { Improvement, ImprovementSettings } from "../algorithm/improvement.ts";
import { type ModelSettings, readModelSettings } from "../algorithm/model-settings.ts";
import { bestVersion, iterationTable, type Report, versionTable } from "../algorithm/report.ts";
import { Stopwatch } from "../algorithm/stopwatch.ts";
import { anyTaskSchema, mathTaskSchema, readTasks } from "../algorithm/tasks.ts";
import { assetFolder } from "../assets.ts";
import { cacheFolder } from "../cache-folder.ts";
import { connectStore } from "../client/http-store.ts";
import type { Config } from "../config.ts";
import { chooseProfile, type Profile } from "../engine/profile.ts";
import { startTrainer } from "../engine/trainer.ts";
import { type EngineCheckpoint, VllmEngine } from "../engine/vllm.ts";
import { AglError } from "../errors.ts";
import { createLogger, type Logger } from "../log.ts";
import { createRunFolder, type RunFolder } from "../run-folder.ts";
import { startProxyWorker, startStoreWorker } from "../service-workers.ts";
import { PhaseLines, TrainingLines } from "./phase-lines.ts";
import { choosePort } from "./ports.ts";
import { preparePython } from "./python.ts";
import { startRunnerProcess } from "./runner-process.ts";
import { describeIteration, describeVersion } from "./run-lines.ts";
import { Shutdown } from "./shutdown.ts";
import { stopOnSignals } from "./stop-signals.ts";

const loopback = "127.0.0.1";
const runnersReadyMs = 300_000;
const runnersStopMs = 15_000;

interface Inputs {
  assets: string;
  cache: string;
  profile: Profile;
  modelFolder: string;
  model: ModelSettings;
  agent: string | undefined;
  tasks: { train: unknown[]; validation: unknown[] };
}

/** `agl allinone`: the whole loop, from nothing but this binary. */
export async function allinone(config: Config): Promise<number> {
  const say = (line: string) => console.log(line);
  const stop = stopOnSignals(say);
  const shutdown = new Shutdown();
  try {
    // Everything a user can get wrong is checked before anything is started.
    const inputs = await readInputs(config);
    const folder = createRunFolder(config.runs);
    return await run(config, inputs, folder, { say, signal: stop.signal, shutdown });
  } catch (error) {
    // A stop makes everything under way fail; the stop is the reason.
    throw stop.signal.aborted ? stop.signal.reason : error;
  } finally {
    await shutdown.run();
    stop.release();
  }
}

async function readInputs(config: Config): Promise<Inputs> {
  const cache = cacheFolder(config.cache);
  const assets = await assetFolder(cache);
  const profile = chooseProfile(config.profile, config.python);
  const modelFolder = resolve(config.model ?? join(assets, "data", "small-model"));
  const schema = config.agent === undefined ? mathTaskSchema : anyTaskSchema;
  const tasksOf = (configured: string | undefined, name: string, limit: number | undefined) =>
    readTasks(configured ?? join(assets, "data", "tasks", name), schema).slice(0, limit);
  return {
    assets,
    cache,
    profile,
    modelFolder,
    model: readModelSettings(modelFolder),
    agent: config.agent === undefined ? undefined : resolve(config.agent),
    tasks: {
      train: tasksOf(config["tasks.train"], "train.jsonl", config["tasks.train_limit"]),
      validation: tasksOf(config["tasks.validation"], "validation.jsonl", config["tasks.validation_limit"]),
    },
  };
}

interface Running {
  say: (line: string) => void;
  signal: AbortSignal;
  shutdown: Shutdown;
}

async function run(config: Config, inputs: Inputs, folder: RunFolder, running: Running): Promise<number> {
  const { say, signal, shutdown } = running;
  const log = createLogger("agl", { level: config.log_level, file: join(folder.logs, "agl.log") });
  const clock = new Stopwatch();
  const settings = improvementSettings(config, inputs);
  say(`agl ${programVersion}  run ${folder.path}  profile ${inputs.profile}  seed ${config.seed}`);
  say(
    `model ${settings.modelName}, ${inputs.tasks.train.length} training and ${inputs.tasks.validation.length} validation tasks`,
  );
  const python = await clock.time("setup", () =>
    preparePython(config, {
      profile: inputs.profile,
      assets: inputs.assets,
      cache: inputs.cache,
      log,
      say,
      signal,
    }),
  );
  const base = linkBase(inputs.modelFolder, folder);
  const services = await startServices(config, folder, running);
  const engine = createEngine(config, settings, python, inputs.profile, folder, log);
  shutdown.add("engine", () => engine.stop());
  const runners = startRunnerProcess(runnerOptions(config, inputs, services.storeUrl), {
    logFile: join(folder.logs, "runners.log"),
    log,
    readyTimeoutMs: runnersReadyMs,
    stopGraceMs: runnersStopMs,
  });
  shutdown.add("runners", () => runners.stop());
  const broken = failsWith(runners.failed, engine);
  const settled = <Result>(work: Promise<Result>) => Promise.race([work, broken, aborted(signal)]);

  say("starting the engine and the runners");
  await settled(
    Promise.all([
      clock.time("engine_start", () => engine.start(base, signal)).then(() => say("engine: ready")),
      clock.time("runners_start", () => runners.ready).then(() => say("runners: ready")),
    ]),
  );
  const report: Report = {
    run: folder.name,
    seed: config.seed,
    model: settings.modelName,
    profile: inputs.profile,
    selection: { rule: settings.rule, fraction: settings.fraction },
    versions: [],
    iterations: [],
    seconds: clock.seconds,
    best: 0,
  };
  const phaseLines = new PhaseLines(say);
  const trainingLines = new TrainingLines(say);
  const improvement: Improvement = {
    settings,
    store: services.store,
    proxy: { ...services.proxy, endpoint: `${services.proxy.url}/v1` },
    engine,
    startTrainer: () =>
      startTrainer({
        python,
        script: join(inputs.assets, "trainer", "sft.py"),
        profile: inputs.profile,
        workFolder: folder.work,
        logFile: join(folder.logs, "trainer.log"),
        timeoutMs: config["trainer.timeout_seconds"] * 1000,
        signal,
        onProgress: (progress) => trainingLines.show(progress),
      }),
    tasks: inputs.tasks,
    base,
    folder,
    signal,
    log,
    say,
    onProgress: (phase, progress) => phaseLines.show(phase, progress),
    onVersion: (version) => say(describeVersion(version)),
    onIteration: (iteration) => say(describeIteration(iteration)),
  };
  await settled(improve(improvement, report));
  printResult(report, folder, say);
  return 0;
}

function improvementSettings(config: Config, inputs: Inputs): ImprovementSettings {
  const { training, ...model } = inputs.model;
  return {
    iterations: config.iterations,
    seed: config.seed,
    profile: inputs.profile,
    between: config["engine.between"],
    rule: config["selection.rule"],
    fraction: config["selection.fraction"],
    shuffleRewards: config["selection.shuffle_rewards"],
    attemptTimeoutSeconds: config["rollouts.attempt_timeout_seconds"],
    phaseTimeoutSeconds: config["rollouts.phase_timeout_seconds"],
    trainerThreads: config["trainer.threads"] ?? availableParallelism(),
    maxModelLen: config["engine.max_model_len"] ?? inputs.model.max_model_len,
    modelName: config.model_name ?? inputs.model.served_name,
    model: {
      ...model,
      training: {
        ...training,
        learning_rate: config["trainer.learning_rate"] ?? training.learning_rate,
        epochs: config["trainer.epochs"] ?? training.epochs,
        batch_size: config["trainer.batch_size"] ?? training.batch_size,
        lora_r: config["trainer.lora_r"] ?? training.lora_r,
        lora_alpha: config["trainer.lora_alpha"] ?? training.lora_alpha,
      },
    },
  };
}

/** `models/version_0` is a link to the base model, so that all versions lie side by side. */
function linkBase(modelFolder: string, folder: RunFolder): EngineCheckpoint {
  const path = join(folder.models, "version_0");
  symlinkSync(modelFolder, path);
  return { path, name: "version_0" };
}

async function startServices(config: Config, folder: RunFolder, { say, shutdown }: Running) {
  const storeServer = await startStoreWorker({
    path: join(folder.path, "store.db"),
    hostname: loopback,
    port: choosePort("store.port", config["store.port"]),
    logFile: join(folder.logs, "store.log"),
  });
  shutdown.add("store", () => storeServer.stop());
  say(`store: ${storeServer.url}`);
  const store = connectStore(storeServer.url);
  shutdown.add("store client", async () => store.close());
  const proxy = await startProxyWorker({
    storeUrl: storeServer.url,
    hostname: loopback,
    port: choosePort("proxy.port", config["proxy.port"]),
    logFile: join(folder.logs, "proxy.log"),
  });
  shutdown.add("proxy", () => proxy.stop());
  say(`proxy: ${proxy.url}/v1`);
  return { storeUrl: storeServer.url, store, proxy };
}

function createEngine(
  config: Config,
  settings: ImprovementSettings,
  python: string,
  profile: Profile,
  folder: RunFolder,
  log: Logger,
): VllmEngine {
  const port = config["engine.port"];
  if (port !== undefined) choosePort("engine.port", port);
  return new VllmEngine({
    python,
    profile,
    modelName: settings.modelName,
    maxModelLen: settings.maxModelLen,
    ...(port === undefined ? {} : { port }),
    folder: join(folder.path, "engine"),
    logFile: join(folder.logs, "vllm.log"),
    log,
    extraArguments: ["--seed", String(config.seed)],
    startTimeoutMs: config["engine.start_timeout_seconds"] * 1000,
  });
}

function runnerOptions(config: Config, inputs: Inputs, storeUrl: string): Record<string, unknown> {
  return {
    storeUrl,
    workers: config["runners.count"],
    concurrency: config["runners.concurrency"],
    attemptTimeoutSeconds: config["rollouts.attempt_timeout_seconds"],
    ...(inputs.agent === undefined ? {} : { agentFile: inputs.agent }),
    ...(inputs.agent === undefined && inputs.model.relative_tolerance !== undefined
      ? { agentSettings: { relativeTolerance: inputs.model.relative_tolerance } }
      : {}),
    ...uvxOption(config),
  };
}

/** What tool commands mean by `uvx`: the one that was named, or that of the uv that was named. */
function uvxOption(config: Config): { uvx?: string[] } {
  if (config.uvx !== undefined) return { uvx: [config.uvx] };
  if (config.uv !== undefined) return { uvx: [config.uv, "tool", "run"] };
  return {};
}

/** Rejects when a part that the loop needs is gone. */
function failsWith(runnersFailed: Promise<never>, engine: VllmEngine): Promise<never> {
  const engineDied = new Promise<never>((_, reject) => engine.onDeath(reject));
  const broken = Promise.race([runnersFailed, engineDied]);
  broken.catch(() => {});
  return broken;
}

function aborted(signal: AbortSignal): Promise<never> {
  const found = new Promise<never>((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
  found.catch(() => {});
  return found;
}

function printResult(report: Report, folder: RunFolder, say: (line: string) => void): void {
  const best = bestVersion(report.versions);
  if (best === undefined) throw new AglError("agent", "the run ended without an evaluated version");
  say("");
  for (const line of versionTable(report.versions)) say(line);
  say("");
  for (const line of iterationTable(report.iterations)) say(line);
  say("");
  say(`checkpoint: ${best.path}`);
  say(`report: ${join(folder.path, "report.md")}`);
}
