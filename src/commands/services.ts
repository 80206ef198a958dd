import { symlinkSync } from "node:fs";
import { join } from "node:path";
import type { ImprovementSettings } from "../algorithm/improvement.ts";
import { connectStore } from "../client/http-store.ts";
import type { Config } from "../config.ts";
import { type EngineCheckpoint, VllmEngine } from "../engine/vllm.ts";
import type { Logger } from "../log.ts";
import type { StoreApi } from "../protocol/store-api.ts";
import type { RunFolder } from "../run-folder.ts";
import { type RunningProxy, startProxyWorker, startStoreWorker } from "../service-workers.ts";
import { failAbandonedAttempts } from "./abandoned-attempts.ts";
import type { Inputs } from "./inputs.ts";
import { startRunnerProcess } from "./runner-process.ts";
import { RunnerSupervision } from "./runner-supervision.ts";
import type { Shutdown } from "./shutdown.ts";

const loopback = "127.0.0.1";
const runnersReadyMs = 300_000;
const runnersStopMs = 15_000;
const workerPrefix = "Worker-";

export interface ServiceContext {
  config: Config;
  folder: RunFolder;
  log: Logger;
  say: (line: string) => void;
  shutdown: Shutdown;
}

export interface StoreAndProxy {
  storeUrl: string;
  store: StoreApi;
  proxy: RunningProxy;
}

export async function startStoreAndProxy(context: ServiceContext): Promise<StoreAndProxy> {
  const { config, folder, say, shutdown } = context;
  const storeServer = await startStoreWorker({
    path: join(folder.path, "store.db"),
    hostname: loopback,
    port: config["store.port"],
    logFile: join(folder.logs, "store.log"),
  });
  shutdown.add("store", () => storeServer.stop());
  say(`store: ${storeServer.url}`);
  const store = connectStore(storeServer.url);
  shutdown.add("store client", async () => store.close());
  const proxy = await startProxyWorker({
    storeUrl: storeServer.url,
    hostname: loopback,
    port: config["proxy.port"],
    logFile: join(folder.logs, "proxy.log"),
  });
  shutdown.add("proxy", () => proxy.stop());
  say(`proxy: ${proxy.url}/v1`);
  return { storeUrl: storeServer.url, store, proxy };
}

/** `models/version_0` is a link to the base model, so that all versions lie side by side. */
export function linkBase(modelFolder: string, folder: RunFolder): EngineCheckpoint {
  const path = join(folder.models, "version_0");
  symlinkSync(modelFolder, path);
  return { path, name: "version_0" };
}

export function createEngine(
  settings: ImprovementSettings,
  python: string,
  { config, folder, log, shutdown }: ServiceContext,
): VllmEngine {
  const port = config["engine.port"];
  const engine = new VllmEngine({
    python,
    profile: settings.profile,
    modelName: settings.modelName,
    maxModelLen: settings.maxModelLen,
    ...(port === undefined ? {} : { port }),
    folder: join(folder.path, "engine"),
    logFile: join(folder.logs, "vllm.log"),
    log,
    extraArguments: ["--seed", String(config.seed)],
    startTimeoutMs: config["engine.start_timeout_seconds"] * 1000,
  });
  shutdown.add("engine", () => engine.stop());
  return engine;
}

export function startRunners(
  inputs: Inputs,
  { storeUrl, store }: StoreAndProxy,
  { config, folder, say, shutdown }: ServiceContext,
): RunnerSupervision {
  const options = runnerOptions(config, inputs, storeUrl);
  const isOurs = (worker: string) => worker.startsWith(workerPrefix);
  const runners = new RunnerSupervision({
    start: () =>
      startRunnerProcess(options, {
        logFile: join(folder.logs, "runners.log"),
        readyTimeoutMs: runnersReadyMs,
        stopGraceMs: runnersStopMs,
      }),
    endAttempts: (error) => failAbandonedAttempts(store, { isOurs, reason: "runner_died", error }),
    say,
  });
  shutdown.add("runners", async () => {
    await runners.stop();
    // They cancel what they know of, which leaves out what was handed to them in the moment of the stop.
    await failAbandonedAttempts(store, { isOurs, reason: "cancelled", error: "the run was stopped" });
  });
  return runners;
}

function runnerOptions(config: Config, inputs: Inputs, storeUrl: string): Record<string, unknown> {
  const { agent, uvx, model } = inputs;
  return {
    storeUrl,
    workerPrefix,
    workers: config["runners.count"],
    concurrency: config["runners.concurrency"],
    attemptTimeoutSeconds: config["rollouts.attempt_timeout_seconds"],
    ...(agent === undefined ? {} : { agentFile: agent }),
    ...(agent === undefined && model.relative_tolerance !== undefined
      ? { agentSettings: { relativeTolerance: model.relative_tolerance } }
      : {}),
    ...(uvx === undefined ? {} : { uvx }),
  };
}
