import { afterEach, describe, expect, jest, test } from "bun:test";
import { silentLogger } from "../../src/log.ts";
import { openStore } from "../../src/store/sqlite-store.ts";
import type { SqliteStore } from "../../src/store/sqlite-store.ts";
import { memoryStore } from "../helpers/memory-store.ts";
import { sampleSpan } from "../helpers/sample-span.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";
import { createTestClock } from "../helpers/test-clock.ts";

async function enqueueOne(store: SqliteStore, members = {}): Promise<string> {
  const [rollout] = await store.enqueueRollouts([{ input: "task", ...members }]);
  return rollout!.rollout_id;
}

async function dequeueOne(store: SqliteStore, workerId = "Worker-0") {
  const [rollout] = await store.dequeueRollouts({ worker_id: workerId });
  return rollout;
}

/** Whatever was to be written by now is: a scan that nobody waits for shows, too. */
async function written(store: SqliteStore) {
  await store.updateWorker("another");
}

describe("the health scan", () => {
  // H-4, H-5, H-6, T-26, T-27
  test("an attempt over its time is ended and its worker unknown", async () => {
    const clock = createTestClock();
    const store = memoryStore({ now: clock.now });
    const id = await enqueueOne(store, { config: { timeout_seconds: 10 } });
    clock.advance(100);
    expect((await dequeueOne(store))?.attempt.sequence_id).toBe(1);
    clock.advance(9.9);
    expect((await store.getRollout(id))?.status).toBe("preparing");
    clock.advance(0.2);
    expect(await store.getRollout(id)).toMatchObject({
      status: "failed",
      end_time: expect.any(Number),
      attempt: { status: "timeout", end_time: null },
    });
    expect(await store.getWorker("Worker-0")).toMatchObject({ status: "unknown", current_attempt_id: null });
  });

  // H-4.3, S-17, H-2
  test("a silent attempt is requeued before the dequeue that finds it", async () => {
    const clock = createTestClock();
    const store = memoryStore({ now: clock.now });
    const config = { unresponsive_seconds: 5, max_attempts: 2, retry_condition: ["unresponsive" as const] };
    const id = await enqueueOne(store, { config });
    await dequeueOne(store);
    clock.advance(6);
    expect(await dequeueOne(store, "Worker-1")).toMatchObject({
      rollout_id: id,
      attempt: { sequence_id: 2 },
    });
  });

  // H-8
  test("only spans and explicit heartbeats keep an attempt alive", async () => {
    const clock = createTestClock();
    const store = memoryStore({ now: clock.now });
    const id = await enqueueOne(store, { config: { unresponsive_seconds: 5 } });
    await dequeueOne(store);
    clock.advance(4);
    await store.updateAttempt(id, "latest", { last_heartbeat_time: clock.now() });
    clock.advance(4);
    await store.updateWorker("Worker-0", {});
    expect((await store.getRollout(id))?.status).toBe("preparing");
    clock.advance(2);
    expect((await store.getRollout(id))?.status).toBe("failed");
  });

  // H-1, H-2
  test("it runs at most once per period, and not for the calls that do not trigger it", async () => {
    const clock = createTestClock();
    const store = memoryStore({ now: clock.now, scanDebounceSeconds: 10 });
    const id = await enqueueOne(store, { config: { timeout_seconds: 1 } });
    const { attempt } = (await dequeueOne(store))!;
    clock.advance(5);
    expect((await store.getRollout(id))?.status).toBe("preparing");
    clock.advance(6);
    await store.statistics();
    await store.nextSequenceId(id, attempt.attempt_id);
    await store.getWorker("Worker-0");
    await store.getLatestResources();
    await store.updateWorker("Worker-0");
    expect((await store.getWorker("Worker-0"))?.status).toBe("busy");
    await store.queryWorkers({});
    expect((await store.getWorker("Worker-0"))?.status).toBe("unknown");
  });

  // H-3
  test("rollouts that wait or are finished are left alone", async () => {
    const clock = createTestClock();
    const store = memoryStore({ now: clock.now });
    const waiting = await enqueueOne(store, { config: { timeout_seconds: 0 } });
    const { rollout_id: done } = await store.startRollout({ input: 1, config: { timeout_seconds: 50 } });
    await store.updateAttempt(done, "latest", { status: "succeeded" });
    clock.advance(100);
    expect((await store.getRollout(waiting))?.status).toBe("queuing");
    expect((await store.getRollout(done))?.status).toBe("succeeded");
  });

  // H-3
  test("a retry that waits in the queue does not time out again, however long it waits", async () => {
    const clock = createTestClock();
    const store = memoryStore({ now: clock.now });
    const config = { timeout_seconds: 5, max_attempts: 2, retry_condition: ["timeout" as const] };
    const { rollout_id: id } = await store.startRollout({ input: 1, config });
    clock.advance(6);
    expect((await store.getRollout(id))?.status).toBe("requeuing");
    await store.updateAttempt(id, "latest", { status: "unresponsive" });
    await store.updateRollout(id, { status: "requeuing" });
    clock.advance(100);
    expect(await store.getRollout(id)).toMatchObject({
      status: "requeuing",
      attempt: { status: "unresponsive" },
    });
  });

  // H-3, S-11
  test("an older attempt is not looked at", async () => {
    const clock = createTestClock();
    const store = memoryStore({ now: clock.now });
    const config = { timeout_seconds: 5 };
    const { rollout_id: id } = await store.startRollout({ input: 1, config });
    clock.advance(4);
    await store.startAttempt(id);
    clock.advance(4);
    const { items } = await store.queryAttempts(id);
    expect(items.map(({ status }) => status)).toEqual(["preparing", "preparing"]);
  });

  // H-5
  test("a rollout forced to run while its latest attempt has already failed is timed out all the same", async () => {
    const clock = createTestClock();
    const store = memoryStore({ now: clock.now });
    const { rollout_id: id } = await store.startRollout({ input: 1, config: { timeout_seconds: 5 } });
    await store.updateAttempt(id, "latest", { status: "failed" });
    await store.updateRollout(id, { status: "running" });
    clock.advance(6);
    expect(await store.getRollout(id)).toMatchObject({ status: "failed", attempt: { status: "timeout" } });
  });

  // H-1
  test("the first call after a start scans", async () => {
    const clock = createTestClock();
    const path = `${temporaryFolder()}/store.db`;
    const before = openStore({ path, now: clock.now });
    const { rollout_id: id } = await before.startRollout({ input: 1, config: { timeout_seconds: 5 } });
    await before.close();
    clock.advance(6);
    const after = openStore({ path, now: clock.now });
    expect((await after.getRollout(id))?.status).toBe("failed");
    await after.close();
  });

  // H-7
  test("calls at the same time share one scan", async () => {
    const clock = createTestClock();
    const scans: unknown[] = [];
    const log = { ...silentLogger, info: (_message: string, fields?: object) => void scans.push(fields) };
    const store = memoryStore({ now: clock.now, scanDebounceSeconds: 10, log });
    const config = { timeout_seconds: 1 };
    for (const input of [1, 2, 3]) await store.startRollout({ input, config });
    clock.advance(20);
    await Promise.all(Array.from({ length: 50 }, () => store.queryRollouts({})));
    expect(scans).toEqual([{ attempts: 3 }]);
  });
});

// T-25
describe("no timer scans", () => {
  afterEach(() => void jest.useRealTimers());

  function countedScans(scanDebounceSeconds: number) {
    jest.useFakeTimers();
    const clock = createTestClock();
    const store = memoryStore({ now: clock.now, scanDebounceSeconds });
    let scans = 0;
    store.observe({ rolloutEnded: () => {}, scanned: () => void (scans += 1) });
    /** How many scans an hour brings. */
    const scansInAnHour = async () => {
      const before = scans;
      clock.advance(3600);
      jest.advanceTimersByTime(3_600_000);
      await written(store);
      return scans - before;
    };
    return { store, scansInAnHour };
  }

  test.each([0, 10])("while nobody calls, with a debounce of %d s", async (debounceSeconds) => {
    const { store, scansInAnHour } = countedScans(debounceSeconds);
    const { rollout_id } = await store.startRollout({ input: 1, config: { timeout_seconds: 5 } });
    expect(await scansInAnHour()).toBe(0);
    expect((await store.getRollout(rollout_id))?.status).toBe("failed");
    expect(await scansInAnHour()).toBe(0);
  });

  test.each([0, 10])("after a held answer has ended, with a debounce of %d s", async (debounceSeconds) => {
    const { store, scansInAnHour } = countedScans(debounceSeconds);
    const caller = new AbortController();
    const held = store.dequeueRollouts({ wait_seconds: 1e9 }, { signal: caller.signal });
    await written(store);
    caller.abort();
    expect(await held).toEqual([]);
    expect(await scansInAnHour()).toBe(0);
  });
});

// E-6, H-2, H-6
describe("which calls scan first", () => {
  /** `other` is a rollout without limits, with one attempt. */
  type Ids = { other: string; attempt: string; resources: string };
  type Call = (store: SqliteStore, ids: Ids) => Promise<unknown>;
  const scanning: { [name: string]: Call } = {
    enqueue: (store) => store.enqueueRollouts([{ input: 1 }]),
    dequeue: (store) => store.dequeueRollouts({}),
    start: (store) => store.startRollout({ input: 1 }),
    "start attempt": (store, { other }) => store.startAttempt(other),
    "query rollouts": (store) => store.queryRollouts({}),
    "look up a rollout": (store) => store.getRollout("ro-x"),
    "update a rollout": (store, { other }) => store.updateRollout(other, {}),
    "query attempts": (store) => store.queryAttempts("ro-x"),
    "look up the latest attempt": (store) => store.getLatestAttempt("ro-x"),
    "update an attempt": (store, { other }) => store.updateAttempt(other, "latest", {}),
    "update resources": (store, { resources }) => store.updateResources(resources, {}),
    "query spans": (store) => store.querySpans({ rollout_id: "ro-x" }),
    wait: (store) => store.waitForRollouts({ rollout_ids: [], timeout: 0 }),
    "query workers": (store) => store.queryWorkers({}),
  };
  const others: { [name: string]: Call } = {
    "enqueue nothing": (store) => store.enqueueRollouts([]),
    "dequeue nothing": (store) => store.dequeueRollouts({ limit: 0 }),
    statistics: (store) => store.statistics(),
    "next sequence number": (store) => store.nextSequenceId("ro-x", "at-x"),
    "store a span": (store, { other, attempt }) =>
      store.addSpan(sampleSpan({ rollout_id: other, attempt_id: attempt })),
    "store spans": (store, { other, attempt }) =>
      store.addSpans([sampleSpan({ rollout_id: other, attempt_id: attempt })]),
    "add resources": (store) => store.addResources({}),
    "query resources": (store) => store.queryResources({}),
    "look up resources": (store, { resources }) => store.getResources(resources),
    "look up the latest resources": (store) => store.getLatestResources(),
    "look up a worker": (store) => store.getWorker("w"),
    "a worker's heartbeat": (store) => store.updateWorker("w"),
  };

  /** Whether an attempt that is overdue when the call comes was ended by it. */
  async function scans(call: Call): Promise<boolean> {
    const clock = createTestClock();
    const store = memoryStore({ now: clock.now, scanDebounceSeconds: 10 });
    const { resources_id: resources } = await store.addResources({});
    const { rollout_id: other, attempt } = await store.startRollout({ input: 1 });
    await store.startRollout({ input: 1, worker_id: "Worker-0", config: { timeout_seconds: 1 } });
    clock.advance(20);
    await call(store, { other, attempt: attempt.attempt_id, resources });
    await written(store);
    return (await store.getWorker("Worker-0"))?.status === "unknown";
  }

  test.each(Object.keys(scanning))("%s does", async (name) => {
    expect(await scans(scanning[name]!)).toBe(true);
  });

  test.each(Object.keys(others))("%s does not", async (name) => {
    expect(await scans(others[name]!)).toBe(false);
  });
});
