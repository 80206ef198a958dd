import { readFileSync, watch } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { connectStore } from "../client/http-store.ts";
import { describeOtherStore, type OtherStore } from "../client/other-store.ts";
import type { Config } from "../config.ts";
import { messageOf, UsageError } from "../errors.ts";
import { createLogger } from "../log.ts";
import { parseModelList } from "../proxy/servers/model-list.ts";
import { createProxy, type RecordingProxy } from "../proxy/proxy.ts";
import { serveProxy } from "../proxy/serve.ts";
import type { Upstream } from "../proxy/servers/upstreams.ts";
import { untilReachable } from "../runner/store-readiness.ts";
import { listModels } from "./external-models.ts";
import { checkPort } from "./ports.ts";
import { describeRecordedCalls } from "./recorded-calls.ts";
import { recordingOptions } from "./recording-options.ts";
import { Shutdown } from "./shutdown.ts";
import { stopOnSignals, untilStopped } from "./stop-signals.ts";
import { chosenStore } from "./store-url.ts";

type Environment = Record<string, string | undefined>;

const flushMs = 10_000;
/** A server that is started again is back within a minute or so, and clients wait longer than this. */
const defaultHoldSeconds = 30;
/** An editor writes a file in several steps. */
const settleMs = 200;

/** `agl proxy`: records the calls of rollouts into a store, in front of servers that run elsewhere. */
export async function proxy(config: Config, { environment }: { environment: Environment }): Promise<number> {
  const log = createLogger("proxy", { level: config.log_level });
  const say = (line: string) => console.log(line);
  const port = config["proxy.port"];
  checkPort("proxy.port", port);
  const upstreams = await readUpstreams(config, environment);
  const stop = stopOnSignals(() => say("stopping: calls under way are finished and stored first"));
  const shutdown = new Shutdown();
  try {
    const { url, authorization } = chosenStore(config, environment);
    const onOtherStore = (change: OtherStore) => say(describeOtherStore(change));
    const store = connectStore(url, { log, authorization, onOtherStore });
    shutdown.add("store client", async () => store.close());
    await untilReachable(() => store.health(), url, {
      signal: stop.signal,
      limitSeconds: config["store.connect_seconds"],
      say,
    });
    if (stop.signal.aborted) return await untilStopped(stop.signal);
    const recording = createProxy({
      store,
      upstreams,
      log,
      ...recordingOptions(config, { store: store.url, folder: "agl-spool" }),
      holdMs: 1_000 * (config["proxy.hold_seconds"] ?? defaultHoldSeconds),
    });
    shutdown.add("recording", async () => {
      // Then they wait on disk.
      if (!recording.statistics().storeAway) await recording.flush(flushMs);
      await recording.close();
      say(describeRecordedCalls(recording.statistics()));
    });
    const server = serveProxy({ proxy: recording, hostname: "127.0.0.1", port });
    shutdown.add("server", () => server.stop());
    say(`proxy: ${server.url}/v1, models ${namesOf(upstreams)}`);
    const file = config["proxy.model_list"];
    if (file !== undefined) {
      const unwatch = onChange(resolve(file), () => say(changeModels(file, environment, recording)));
      shutdown.add("watch", async () => unwatch());
    }
    return await untilStopped(stop.signal);
  } finally {
    await shutdown.run();
    stop.release();
  }
}

async function readUpstreams(config: Config, environment: Environment): Promise<Upstream[]> {
  const file = config["proxy.model_list"];
  const url = config["engine.url"];
  if (file !== undefined && url !== undefined) {
    throw new UsageError("proxy.model_list and engine.url are both given", "name one of them");
  }
  if (file !== undefined) return readModelList(file, environment);
  if (url !== undefined) return await upstreamsOf(url, config);
  throw new UsageError(
    "no model to forward to",
    "give --engine-url http://HOST:PORT/v1, or --proxy-model-list FILE",
  );
}

function readModelList(file: string, environment: Environment): Upstream[] {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw new UsageError(`proxy.model_list: ${file} cannot be read: ${messageOf(error)}`, "name a JSON file");
  }
  let list: unknown;
  try {
    list = JSON.parse(text.replace(/^\uFEFF/, ""));
  } catch {
    // What the parser says may quote a key out of the file.
    throw new UsageError(`proxy.model_list: ${file} is not JSON`, "It is a JSON array of models.");
  }
  return parseModelList(list, { environment });
}

/** Takes the list as it is now; what is wrong with it changes nothing. Returns a line about it. */
function changeModels(
  file: string,
  environment: Environment,
  recording: Pick<RecordingProxy, "setUpstreams">,
): string {
  try {
    const changed = readModelList(file, environment);
    recording.setUpstreams(changed);
    return `${file} has changed: models ${namesOf(changed)}`;
  } catch (error) {
    return `${file} has changed, and the models of before are kept: ${messageOf(error)}`;
  }
}

/** Every model that the server lists, or the one that is named. */
async function upstreamsOf(url: string, config: Config): Promise<Upstream[]> {
  const apiKey = config["engine.api_key"];
  const named = config.model_name;
  const models = named === undefined ? await listModels(url, apiKey) : [named];
  return models.map((model) => ({
    modelName: model,
    model,
    baseUrl: url,
    apiKey,
    checkpoint: model,
    provider: "hosted_vllm",
  }));
}

function onChange(file: string, changed: () => void): () => void {
  let timer: Timer | undefined;
  // The folder is watched: editors put a new file in the place of the old one.
  const watcher = watch(dirname(file), (_, name) => {
    if (name !== basename(file)) return;
    clearTimeout(timer);
    timer = setTimeout(changed, settleMs);
  });
  return () => {
    clearTimeout(timer);
    watcher.close();
  };
}

function namesOf(upstreams: Upstream[]): string {
  const names = [...new Set(upstreams.map(({ modelName }) => modelName))];
  return names.length === 0 ? "none yet" : names.join(", ");
}
