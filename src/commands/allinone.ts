import { join } from "node:path";
import { version as programVersion } from "../../package.json" with { type: "json" };
import { improve } from "../algorithm/improve.ts";
import type { Improvement, ImprovementSettings } from "../algorithm/improvement.ts";
import { bestVersion, iterationTable, type Report, versionTable } from "../algorithm/report.ts";
import { Stopwatch } from "../algorithm/stopwatch.ts";
import type { Config } from "../config.ts";
import { startTrainer } from "../engine/trainer.ts";
import type { VllmEngine } from "../engine/vllm.ts";
import { AglError } from "../errors.ts";
import { createLogger } from "../log.ts";
import { createRunFolder, type RunFolder } from "../run-folder.ts";
import { improvementSettings } from "./improvement-settings.ts";
import { type Inputs, readInputs } from "./inputs.ts";
import { PhaseLines, TrainingLines } from "./phase-lines.ts";
import { preparePython } from "./python.ts";
import { describeIteration, describeVersion } from "./run-lines.ts";
import type { RunnerSupervision } from "./runner-supervision.ts";
import { createEngine, linkBase, type ServiceContext, startRunners, startStoreAndProxy } from "./services.ts";
import { Shutdown } from "./shutdown.ts";
import { stopOnSignals } from "./stop-signals.ts";

/** `agl allinone`: the whole loop, from nothing but this binary. */
export async function allinone(config: Config): Promise<number> {
  const say = (line: string) => console.log(line);
  const stop = stopOnSignals(say);
  const shutdown = new Shutdown();
  // What is still under way when something failed has to end as well.
  const failed = new AbortController();
  try {
    const inputs = await readInputs(config, stop.signal);
    const folder = createRunFolder(config.runs);
    const log = createLogger("agl", { level: config.log_level, file: join(folder.logs, "agl.log") });
    const signal = AbortSignal.any([stop.signal, failed.signal]);
    await run(inputs, signal, { config, folder, log, say, shutdown });
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

async function run(inputs: Inputs, signal: AbortSignal, context: ServiceContext): Promise<void> {
  const { config, folder, log, say } = context;
  const { assets, cache, profile } = inputs;
  const clock = new Stopwatch();
  const settings = improvementSettings(config, inputs);
  say(`agl ${programVersion}  run ${folder.path}  profile ${profile}  seed ${config.seed}`);
  say(
    `model ${settings.modelName}, ${inputs.tasks.train.length} training and ${inputs.tasks.validation.length} validation tasks`,
  );
  const python =
    inputs.python ??
    (await clock.time("setup", () => preparePython(config, { profile, assets, cache, log, say, signal })));
  const base = linkBase(inputs.modelFolder, folder);
  const services = await startStoreAndProxy(context);
  const engine = createEngine(settings, python, context);
  const runners = startRunners(inputs, services, context);
  const broken = failsWith(runners, engine);
  const settled = <Result>(work: Promise<Result>) => Promise.race([work, broken, aborted(signal)]);

  say("starting the engine and the runners");
  await settled(
    Promise.all([
      clock.time("engine_start", () => engine.start(base, signal)).then(() => say("engine: ready")),
      clock.time("runners_start", () => runners.ready).then(() => say("runners: ready")),
    ]),
  );
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
        script: join(assets, "trainer", "sft.py"),
        profile,
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
  const report = emptyReport(folder.name, settings, clock.seconds);
  await settled(improve(improvement, report));
  printResult(report, folder, say);
}

function emptyReport(run: string, settings: ImprovementSettings, seconds: Record<string, number>): Report {
  const { seed, modelName, profile, rule, fraction } = settings;
  const selection = { rule, fraction };
  return { run, seed, model: modelName, profile, selection, versions: [], iterations: [], seconds, best: 0 };
}

/** Rejects when a part that the loop needs is gone. */
function failsWith(runners: RunnerSupervision, engine: VllmEngine): Promise<never> {
  const engineDied = new Promise<never>((_, reject) => engine.onDeath(reject));
  const broken = Promise.race([runners.failed, engineDied]);
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
