import { expect, test } from "bun:test";
import { join } from "node:path";
import { childEnvironment } from "../../src/engine/child-environment.ts";
import { AglError } from "../../src/errors.ts";
import type { StoreApi } from "../../src/protocol/store-api.ts";
import type { RunnerEvent } from "../../src/runner/events.ts";
import { checkRunnersSettings } from "../../src/runner-host.ts";
import { superviseRunners } from "../../src/runner/runners.ts";
import { openStore } from "../../src/store/sqlite-store.ts";
import { eventually } from "../helpers/processes.ts";
import { startRunners, wildAgent } from "../helpers/runners-fixture.ts";

const workerFile = join(import.meta.dir, "../../src/runner-worker.ts");

test("rollouts are shared out, and no more than `concurrency` run in one thread at once", async () => {
  await using runners = await startRunners({ workers: 2, concurrency: 3 });
  const ids = await Promise.all(
    Array.from({ length: 12 }, () => runners.enqueue({ do: "sleep", value: 300 })),
  );
  let most = 0;
  const count = async () => {
    const running = await runners.store.queryRollouts({ status_in: ["preparing", "running"], limit: -1 });
    most = Math.max(most, running.total);
    return runners.events.filter((event) => event.event === "attempt-ended").length === ids.length;
  };
  expect(await eventually(count)).toBe(true);
  expect(most).toBeGreaterThan(3);
  expect(most).toBeLessThanOrEqual(6);
  const ended = await Promise.all(ids.map((id) => runners.ended(id)));
  expect(new Set(ended.map((end) => end.worker))).toEqual(new Set(["Worker-0", "Worker-1"]));
});

test("a store that does not hold answers is polled, and asked for nothing it does not know", async () => {
  const store = openStore({ path: ":memory:" });
  const requests: object[] = [];
  const upstreamLike = overriding(store, {
    dequeueRollouts(request) {
      requests.push(request);
      return store.dequeueRollouts(request);
    },
  });
  await using running = supervise(upstreamLike, { pollSeconds: 0.05 });
  expect(await eventually(() => requests.length > 3)).toBe(true);
  expect(requests[0]).toEqual({ limit: 1, worker_id: "Worker-0" });
  await enqueue(store);
  expect(await eventually(() => running.events.some((event) => event.event === "attempt-ended"))).toBe(true);
});

test("a store that fails for a while is said so, and the work goes on when it is back", async () => {
  const store = openStore({ path: ":memory:" });
  let failures = 2;
  const flaky = overriding(store, {
    async dequeueRollouts(request, options) {
      if (failures-- > 0) throw new AglError("store", "no store answers");
      return store.dequeueRollouts(request, options);
    },
  });
  await using running = supervise(flaky, {});
  await enqueue(store);
  expect(await eventually(() => running.events.some((event) => event.event === "attempt-ended"))).toBe(true);
  const trouble = running.events.filter((event) => event.event === "store-trouble");
  expect(trouble).toEqual(
    Array(2).fill({ event: "store-trouble", worker: "Worker-0", message: "no store answers" }),
  );
});

test("a reward that cannot be stored fails the attempt instead of being lost in silence", async () => {
  const store = openStore({ path: ":memory:" });
  const spanless = overriding(store, {
    addSpan: () => Promise.reject(new AglError("store", "the disk is full")),
  });
  await using running = supervise(spanless, {});
  const id = await enqueue(store);
  expect(await eventually(() => running.events.some((event) => event.event === "attempt-ended"))).toBe(true);
  expect(await store.getLatestAttempt(id)).toMatchObject({
    status: "failed",
    metadata: { reason: "store_error", error: "the reward was not stored: the disk is full", lost_spans: 1 },
  });
});

function overriding(store: StoreApi, changed: Partial<StoreApi>): StoreApi {
  return new Proxy(store, {
    get(target, name: keyof StoreApi) {
      const own = changed[name] ?? target[name];
      return typeof own === "function" ? own.bind(target) : own;
    },
  });
}

async function enqueue(store: StoreApi): Promise<string> {
  const llm = { endpoint: "http://127.0.0.1:9", model: "m", api_key: null, sampling_parameters: {} };
  await store.addResources({ main_llm: { resource_type: "llm", ...llm } });
  const [rollout] = await store.enqueueRollouts([{ input: { do: "return", value: 1 } }]);
  return rollout!.rollout_id;
}

function supervise(store: StoreApi, more: object): { events: RunnerEvent[] } & AsyncDisposable {
  const stopping = new AbortController();
  const events: RunnerEvent[] = [];
  const settings = checkRunnersSettings({
    storeUrl: "http://127.0.0.1:9",
    workers: 1,
    agentFile: wildAgent,
    ...more,
  });
  const outcome = superviseRunners(
    settings,
    { signal: stopping.signal, onEvent: (event) => void events.push(event) },
    { store, storeHolds: false, createWorker: () => new Worker(workerFile), environment: childEnvironment() },
  );
  return {
    events,
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await outcome;
    },
  };
}
