import { join } from "node:path";
import type { Span } from "../../src/protocol/types.ts";
import type { AttemptEnded, RunnerEvent } from "../../src/runner/events.ts";
import type { RunnersOptions } from "../../src/runner/options.ts";
import { runRunners } from "../../src/runner-host.ts";
import type { RunnersOutcome } from "../../src/runner/runners.ts";
import { serveStore } from "../../src/server/serve.ts";
import { openStore, type SqliteStore } from "../../src/store/sqlite-store.ts";
import { eventually } from "./processes.ts";

export const wildAgent = join(import.meta.dir, "wild-agent.ts");
export const toolAgent = join(import.meta.dir, "tool-agent.ts");

export interface RunnersFixture extends AsyncDisposable {
  store: SqliteStore;
  storeUrl: string;
  events: RunnerEvent[];
  ready: Promise<void>;
  /** Of `runRunners`. */
  outcome: Promise<RunnersOutcome>;
  enqueue(
    input: unknown,
    more?: { resources_id?: string; config?: object; mode?: "train" | "val" },
  ): Promise<string>;
  ended(rolloutId: string): Promise<AttemptEnded>;
  spans(rolloutId: string): Promise<Span[]>;
  stop(): Promise<RunnersOutcome>;
}

/** A real store behind a real server, and real runners on it. */
export async function startRunners(
  options: Partial<RunnersOptions> & {
    model?: string | null;
    resourceType?: "llm" | "proxy_llm";
    storeFile?: string;
  } = {},
): Promise<RunnersFixture> {
  const store = openStore({ path: options.storeFile ?? ":memory:" });
  const server = serveStore({ store, hostname: "127.0.0.1", port: 0 });
  const { model = "http://127.0.0.1:9", resourceType = "proxy_llm", storeFile: _, ...settings } = options;
  if (model !== null) {
    const llm = { model: "m", api_key: null, sampling_parameters: {} };
    await store.addResources({ main_llm: { resource_type: resourceType, endpoint: model, ...llm } });
  }
  const stopping = new AbortController();
  const events: RunnerEvent[] = [];
  const ready = Promise.withResolvers<void>();
  const ended = new Map<string, AttemptEnded>();
  const outcome = runRunners({
    storeUrl: server.url,
    workers: 1,
    agentFile: wildAgent,
    graceSeconds: 0.2,
    signal: stopping.signal,
    onEvent: (event) => {
      events.push(event);
      if (event.event === "ready") ready.resolve();
      if (event.event === "attempt-ended") ended.set(event.rolloutId, event);
    },
    ...settings,
  });
  outcome.catch((error) => ready.reject(error));
  ready.promise.catch(() => {});
  const stop = async () => {
    stopping.abort();
    return outcome;
  };
  return {
    store,
    storeUrl: server.url,
    events,
    ready: ready.promise,
    outcome,
    enqueue: async (input, more = {}) => (await store.enqueueRollouts([{ input, ...more }]))[0]!.rollout_id,
    async ended(rolloutId) {
      await eventually(() => ended.has(rolloutId), 20_000);
      const found = ended.get(rolloutId);
      if (found === undefined)
        throw new Error(`rollout ${rolloutId} did not end; events: ${JSON.stringify(events)}`);
      return found;
    },
    spans: async (rolloutId) => (await store.querySpans({ rollout_id: rolloutId, limit: -1 })).items,
    stop,
    async [Symbol.asyncDispose]() {
      await stop().catch(() => {});
      await server.stop();
      await store.close();
    },
  };
}
