import { symlinkSync } from "node:fs";
import { join } from "node:path";
import type { AlgorithmProxy, AlgorithmSettings } from "../algorithm/algorithm.ts";
import { connectStore } from "../client/http-store.ts";
import { refuseOtherStore } from "../client/other-store.ts";
import { storeAddress, type StoreAddress } from "../client/store-address.ts";
import type { Config, ResolvedConfig } from "../config.ts";
import { gpuArguments } from "../engine/gpu-arguments.ts";
import type { GpuPlan } from "../engine/gpu-plan.ts";
import { freePort } from "../engine/port-owner.ts";
import { type EngineAddress, type EngineCheckpoint, VllmEngine } from "../engine/vllm.ts";
import type { Logger } from "../log.ts";
import type { StoreApi } from "../protocol/store-api.ts";
import { asResource, proxyResource } from "../proxy/resource.ts";
import type { RunFolder } from "../run-folder.ts";
import { untilReachable } from "../runner/store-readiness.ts";
import { type ListenOptions, startProxyWorker, startStoreWorker } from "../service-workers.ts";
import { failAbandonedAttempts } from "../runner/abandoned-attempts.ts";
import type { Inputs } from "./inputs.ts";
import { describeOtherPort, isDefault } from "./ports.ts";
import { describeRecordedCalls, hasRecordingTrouble } from "./recorded-calls.ts";
import { recordingOptions } from "./recording-options.ts";
import { startRunnerProcess } from "./runner-process.ts";
import { RunnerSupervision } from "./runner-supervision.ts";
import { runnerSettings } from "./runner-settings.ts";
import type { Shutdown } from "./shutdown.ts";

const loopback = "127.0.0.1";
const runnersReadyMs = 300_000;
const runnersStopMs = 15_000;
const flushMs = 30_000;

export interface ServiceContext {
  config: Config;
  sources: ResolvedConfig["sources"];
  /** Of the store, when it wants one. */
  token: string | undefined;
  folder: RunFolder;
  /** The database of a store of the run's own. */
  storePath: string;
  log: Logger;
  say: (line: string) => void;
  signal: AbortSignal;
  shutdown: Shutdown;
}

export interface RunStore {
  address: StoreAddress;
  store: StoreApi;
}

/** A store of the run's own, in its folder. */
export async function startStore(context: ServiceContext): Promise<RunStore> {
  const { folder, shutdown, token } = context;
  const server = await startStoreWorker({
    path: context.storePath,
    token,
    ...listenOn("store.port", context),
    logFile: join(folder.logs, "store.log"),
  });
  shutdown.add("store", () => server.stop());
  sayWhere("store", server, "store.port", context);
  return useStore(storeAddress(server.url, token), shutdown);
}

/** A store that somebody else runs; waits until it answers. */
export async function joinStore(
  url: string,
  { config, token, say, signal, shutdown }: ServiceContext,
): Promise<RunStore> {
  const address = storeAddress(url, token);
  const found = useStore(address, shutdown);
  await untilReachable(() => found.store.health(), address.url, {
    signal,
    limitSeconds: config["store.connect_seconds"],
    say,
  });
  signal.throwIfAborted();
  say(`store: ${address.url}`);
  return found;
}

type OwnPort = "store.port" | "proxy.port";

function listenOn(setting: OwnPort, { config, sources }: ServiceContext): ListenOptions {
  return { hostname: loopback, port: config[setting], anyPort: isDefault(setting, sources) };
}

function sayWhere(
  name: string,
  { url, port }: { url: string; port: number },
  setting: OwnPort,
  { config, say }: ServiceContext,
): void {
  if (port !== config[setting]) say(describeOtherPort(setting, config[setting]));
  say(`${name}: ${url}`);
}

function useStore(address: StoreAddress, shutdown: Shutdown) {
  const { url, authorization } = address;
  const store = connectStore(url, { authorization, onOtherStore: refuseOtherStore });
  shutdown.add("store client", async () => store.close());
  return { address, store };
}

export interface RunProxy extends AlgorithmProxy {
  /** Lets calls through to the engine with this checkpoint in it, or holds them off. */
  route(served: { engine: EngineAddress; checkpoint: EngineCheckpoint } | undefined): Promise<void>;
}

/** The run's own recording proxy. */
export async function startProxy(
  modelName: string,
  store: StoreAddress,
  context: ServiceContext,
): Promise<RunProxy> {
  const { folder, shutdown, say } = context;
  const proxy = await startProxyWorker({
    store,
    ...listenOn("proxy.port", context),
    logFile: join(folder.logs, "proxy.log"),
    recording: recordingOptions(context.config, { store: store.url, folder: join(folder.path, "spool") }),
    holdMs: 1_000 * (context.config["proxy.hold_seconds"] ?? 0),
  });
  shutdown.add("proxy", async () => {
    const statistics = await proxy.stop();
    if (statistics !== undefined && hasRecordingTrouble(statistics)) say(describeRecordedCalls(statistics));
  });
  const endpoint = `${proxy.url}/v1`;
  sayWhere("proxy", { url: endpoint, port: proxy.port }, "proxy.port", context);
  return {
    resource: (samplingParameters, attempt) =>
      asResource({ endpoint, upstreams: [{ modelName }], samplingParameters, ...attempt }),
    flush: () => proxy.flush(flushMs),
    route: (served) => proxy.setUpstreams(served === undefined ? [] : [upstreamOf(modelName, served)]),
  };
}

function upstreamOf(
  modelName: string,
  { engine, checkpoint }: { engine: EngineAddress; checkpoint: EngineCheckpoint },
) {
  return {
    modelName,
    model: modelName,
    baseUrl: `${engine.origin}/v1`,
    ...(engine.unixSocket === undefined ? {} : { unixSocket: engine.unixSocket }),
    ...(engine.apiKey === undefined ? {} : { apiKey: engine.apiKey }),
    checkpoint: checkpoint.name,
    provider: "hosted_vllm" as const,
  };
}

/** A proxy that somebody else runs: it is told nothing, and records what it records. */
export function joinProxy(modelName: string, { config, say }: ServiceContext): RunProxy {
  const endpoint = config["proxy.url"] as string;
  say(`proxy: ${endpoint} (not ours)`);
  return {
    resource: (samplingParameters, attempt) =>
      asResource({ endpoint, upstreams: [{ modelName }], samplingParameters, ...attempt }),
    // Its calls are stored when the runner ends an attempt, or when it says so.
    flush: () => Promise.resolve(),
    route: () => Promise.resolve(),
  };
}

/** No proxy: agents talk to the engine, and the runners' tracer records. */
export function withoutProxy(modelName: string, engine: () => EngineAddress): RunProxy {
  return {
    resource: (sampling) => ({
      ...proxyResource(`${engine().origin}/v1`, modelName, sampling),
      resource_type: "llm",
      api_key: engine().apiKey ?? null,
    }),
    flush: () => Promise.resolve(),
    route: () => Promise.resolve(),
  };
}

/** `models/version_0` is a link to the base model, so that all versions lie side by side. */
export function linkBase(modelFolder: string, folder: RunFolder): EngineCheckpoint {
  const path = join(folder.models, "version_0");
  symlinkSync(modelFolder, path);
  return { path, name: "version_0" };
}

export function createVllm(
  settings: AlgorithmSettings,
  { python, gpuPlan }: { python: string; gpuPlan: GpuPlan | undefined },
  { config, folder, log, shutdown }: ServiceContext,
): VllmEngine {
  // Who reaches the engine without our proxy needs a port.
  const direct = config["proxy.off"] || config["proxy.url"] !== undefined;
  const port = config["engine.port"] ?? (direct ? freePort() : undefined);
  const engine = new VllmEngine({
    python,
    profile: settings.profile,
    modelName: settings.modelName,
    maxModelLen: settings.maxModelLen,
    toolCallParser: settings.model.tool_call_parser,
    ...(port === undefined ? {} : { port }),
    folder: join(folder.path, "engine"),
    logFile: join(folder.logs, "vllm.log"),
    log,
    extraArguments: ["--seed", String(config.seed), ...(gpuPlan === undefined ? [] : gpuArguments(gpuPlan))],
    startTimeoutMs: config["engine.start_timeout_seconds"] * 1000,
  });
  shutdown.add("engine", () => engine.stop());
  return engine;
}

export function startRunners(
  inputs: Inputs,
  { address, store }: RunStore,
  { config, folder, say, shutdown }: ServiceContext,
): RunnerSupervision {
  const options = runnerSettings(config, { store: address, agent: inputs.agent, uvx: inputs.uvx });
  const isOurs = (worker: string) => worker.startsWith(config["runners.prefix"]);
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
