import { describe, expect, test } from "bun:test";
import { StoreRequestError } from "../../src/errors.ts";
import { parseJson, stringifyJson } from "../../src/protocol/json.ts";
import type { SqliteStore } from "../../src/store/sqlite-store.ts";
import { memoryStore } from "../helpers/memory-store.ts";

async function enqueueOne(store: SqliteStore, members = {}): Promise<string> {
  const [rollout] = await store.enqueueRollouts([{ input: "task", ...members }]);
  return rollout!.rollout_id;
}

async function dequeueOne(store: SqliteStore, workerId = "Worker-0") {
  const [rollout] = await store.dequeueRollouts({ worker_id: workerId });
  return rollout;
}

describe("enqueue and start", () => {
  // S-1, D-3, section 4.4, 4.5
  test("a new rollout waits with complete defaults", async () => {
    const store = memoryStore();
    const [rollout] = await store.enqueueRollouts([{ input: { q: 1 }, config: null, metadata: null }]);
    expect(rollout).toEqual({
      rollout_id: expect.stringMatching(/^ro-[0-9a-f]{12}$/),
      input: { q: 1 },
      start_time: expect.any(Number),
      end_time: null,
      mode: null,
      resources_id: null,
      status: "queuing",
      config: { timeout_seconds: null, unresponsive_seconds: null, max_attempts: 1, retry_condition: [] },
      metadata: {},
    });
    expect(await store.getRollout(rollout!.rollout_id)).toEqual(rollout!);
  });

  // S-1, T-38, G-1
  test("resources default to the latest snapshot at that moment and are not checked", async () => {
    const store = memoryStore();
    const { resources_id: first } = await store.addResources({});
    const [before] = await store.enqueueRollouts([{ input: 1 }]);
    await store.updateResources("other", {});
    const [after, named] = await store.enqueueRollouts([{ input: 1 }, { input: 1, resources_id: "nowhere" }]);
    expect([before, after, named].map((rollout) => rollout?.resources_id)).toEqual([
      first,
      "other",
      "nowhere",
    ]);
    expect((await dequeueOne(store))?.resources_id).toBe(first);
  });

  // S-2, K-3
  test("start makes attempt 1 at once and keeps it out of the queue", async () => {
    const store = memoryStore();
    const started = await store.startRollout({ input: null, worker_id: "Worker-3" });
    expect(started).toMatchObject({
      status: "preparing",
      attempt: { sequence_id: 1, worker_id: "Worker-3" },
    });
    expect(started.attempt.start_time).toBe(started.start_time);
    expect(started.attempt.attempt_id).toMatch(/^at-[0-9a-f]{8}$/);
    expect(await store.dequeueRollouts({})).toEqual([]);
    expect(await store.getWorker("Worker-3")).toMatchObject({
      status: "busy",
      current_attempt_id: started.attempt.attempt_id,
    });
  });

  // D-4, T-31
  test("opaque members keep their digits on the wire", async () => {
    const store = memoryStore();
    const opaque = '{"reward":1.0,"seed":12345678901234567890,"none":null,"2":0,"1":0}';
    const value = parseJson(opaque) as Record<string, unknown>;
    const id = await enqueueOne(store, { input: value, metadata: value });
    await dequeueOne(store);
    await store.updateAttempt(id, "latest", { metadata: value });
    const text = stringifyJson(await store.queryRollouts({}));
    expect(text.split(opaque)).toHaveLength(4);
    await store.updateRollout(id, { mode: "val" });
    expect(stringifyJson(await store.getRollout(id)).split(opaque)).toHaveLength(4);
  });
});

describe("the queue", () => {
  // S-3
  test("it is first in, first out, up to the limit", async () => {
    const store = memoryStore();
    const rollouts = await store.enqueueRollouts([1, 2, 3].map((input) => ({ input })));
    const ids = rollouts.map(({ rollout_id }) => rollout_id);
    const taken = await store.dequeueRollouts({ limit: 2, worker_id: "w" });
    expect(taken.map(({ rollout_id }) => rollout_id)).toEqual(ids.slice(0, 2));
    expect(taken[1]).toMatchObject({ status: "preparing", attempt: { sequence_id: 1, worker_id: "w" } });
    // K-4
    expect((await store.getWorker("w"))?.current_rollout_id).toBe(ids[1]);
    expect(await store.dequeueRollouts({ limit: 5 })).toHaveLength(1);
  });

  // E-6, T-7
  test.each([0, -1])("a limit of %d touches nothing", async (limit) => {
    const store = memoryStore();
    await enqueueOne(store);
    expect(await store.dequeueRollouts({ limit, worker_id: "w" })).toEqual([]);
    expect(await store.getWorker("w")).toBeNull();
    expect(await store.dequeueRollouts({ worker_id: "w" })).toHaveLength(1);
  });

  // S-3, T-23
  test("an entry whose rollout left the group is passed over in the same call", async () => {
    const store = memoryStore();
    const [gone, left] = [await enqueueOne(store), await enqueueOne(store)];
    await store.updateRollout(gone, { status: "cancelled" });
    expect((await dequeueOne(store))?.rollout_id).toBe(left);
    expect(await dequeueOne(store)).toBeUndefined();
  });

  // S-4.1, T-24
  test("entering the group again does not queue twice", async () => {
    const store = memoryStore();
    const id = await enqueueOne(store);
    await store.updateRollout(id, { status: "requeuing" });
    await store.updateRollout(id, { status: "queuing" });
    expect(await store.dequeueRollouts({ limit: 9 })).toHaveLength(1);
  });

  // S-4.3
  test("coming back before the stale entry is passed keeps the place, afterwards joins the tail", async () => {
    const store = memoryStore();
    const [first, second] = [await enqueueOne(store), await enqueueOne(store)];
    await store.updateRollout(first, { status: "running" });
    await store.updateRollout(first, { status: "requeuing" });
    expect((await dequeueOne(store))?.rollout_id).toBe(first);
    const third = await enqueueOne(store);
    await store.updateRollout(first, { status: "requeuing" });
    const rest = await store.dequeueRollouts({ limit: 9 });
    expect(rest.map(({ rollout_id }) => rollout_id)).toEqual([second, third, first]);
  });

  // S-4.4
  test("a retry waits behind what was enqueued before it", async () => {
    const store = memoryStore();
    const config = { max_attempts: 2, retry_condition: ["failed" as const] };
    const retried = await enqueueOne(store, { config });
    const waiting = await enqueueOne(store);
    await dequeueOne(store);
    await store.updateAttempt(retried, "latest", { status: "failed" });
    const taken = await store.dequeueRollouts({ limit: 9 });
    expect(taken.map(({ rollout_id }) => rollout_id)).toEqual([waiting, retried]);
  });

  // S-5, S-9
  test("being claimed again keeps the end of an earlier time", async () => {
    const store = memoryStore();
    const id = await enqueueOne(store);
    const { end_time } = await store.updateRollout(id, { status: "failed" });
    await store.updateRollout(id, { status: "requeuing" });
    expect(await dequeueOne(store)).toMatchObject({ rollout_id: id, status: "preparing", end_time });
  });

  // S-5
  test("64 dequeuers at once get each rollout exactly once", async () => {
    const store = memoryStore();
    const rollouts = await store.enqueueRollouts(Array.from({ length: 500 }, (_, input) => ({ input })));
    const taken: string[] = [];
    const drain = async (worker: number) => {
      for (;;) {
        const [rollout] = await store.dequeueRollouts({ worker_id: `Worker-${worker}` });
        if (rollout === undefined) return;
        taken.push(rollout.rollout_id);
      }
    };
    await Promise.all(Array.from({ length: 64 }, (_, worker) => drain(worker)));
    expect(taken.toSorted()).toEqual(rollouts.map(({ rollout_id }) => rollout_id).toSorted());
  });

  // K-5
  test("an empty dequeue leaves the worker idle", async () => {
    const store = memoryStore();
    await dequeueOne(store, "w");
    const first = await store.getWorker("w");
    expect(first).toMatchObject({ status: "idle", last_busy_time: null });
    await dequeueOne(store, "w");
    const second = await store.getWorker("w");
    expect(second?.last_idle_time).toBe(first!.last_idle_time);
    expect(second!.last_dequeue_time!).toBeGreaterThan(first!.last_dequeue_time!);
  });
});

describe("attempts drive their rollout", () => {
  // S-8, S-9, S-13, S-14, D-2, T-30
  test("a succeeded attempt ends both and frees the worker", async () => {
    const store = memoryStore();
    const id = await enqueueOne(store);
    const attempt = (await dequeueOne(store))!.attempt;
    const ended = await store.updateAttempt(id, attempt.attempt_id, { status: "succeeded" });
    const rollout = await store.getRollout(id);
    expect(rollout).toMatchObject({ status: "succeeded", attempt: ended });
    expect(rollout!.end_time!).toBeGreaterThan(rollout!.start_time);
    expect(rollout!.end_time!).toBeGreaterThanOrEqual(ended.end_time!);
    expect(await store.getWorker("Worker-0")).toMatchObject({ status: "idle", current_rollout_id: null });
  });

  // S-8, S-16, S-17
  test("a listed failure is retried by the next dequeue until the attempts are used up", async () => {
    const store = memoryStore();
    const id = await enqueueOne(store, { config: { max_attempts: 2, retry_condition: ["failed"] } });
    await dequeueOne(store);
    await store.updateAttempt(id, "latest", { status: "failed" });
    expect(await store.getRollout(id)).toMatchObject({ status: "requeuing", end_time: null });
    expect((await dequeueOne(store))?.attempt.sequence_id).toBe(2);
    await store.updateAttempt(id, "latest", { status: "failed" });
    expect((await store.getRollout(id))?.status).toBe("failed");
    expect(await dequeueOne(store)).toBeUndefined();
  });

  // S-6, S-7, S-11, T-16, T-18, K-7
  test("only the latest attempt counts, and a new one reopens a finished rollout", async () => {
    const store = memoryStore();
    const started = await store.startRollout({ input: 1, worker_id: "old" });
    const id = started.rollout_id;
    await store.updateAttempt(id, "latest", { status: "succeeded" });
    const finished = await store.getRollout(id);
    const second = await store.startAttempt(id, "new");
    expect(second).toMatchObject({ status: "preparing", attempt: { sequence_id: 2 } });
    // S-9: the end time stays
    expect(second.end_time).toBe(finished!.end_time);
    await store.updateAttempt(id, started.attempt.attempt_id, { status: "failed" });
    expect(await store.getRollout(id)).toMatchObject({ status: "preparing", attempt: second.attempt });
    expect((await store.getWorker("old"))?.status).toBe("idle");
    expect((await store.getWorker("new"))?.status).toBe("busy");
  });

  // S-6, S-16, T-18
  test("attempts started by hand are not limited, but count towards the limit of retries", async () => {
    const store = memoryStore();
    const config = { max_attempts: 2, retry_condition: ["failed" as const] };
    const { rollout_id: id } = await store.startRollout({ input: 1, config });
    for (const number of [2, 3]) expect((await store.startAttempt(id)).attempt.sequence_id).toBe(number);
    await store.updateAttempt(id, "latest", { status: "failed" });
    expect((await store.getRollout(id))?.status).toBe("failed");
  });

  // S-8, S-12
  test("an attempt may come back from its end, and its rollout with it", async () => {
    const store = memoryStore();
    const { rollout_id: id } = await store.startRollout({ input: 1 });
    const ended = await store.updateAttempt(id, "latest", { status: "failed" });
    const attempt = await store.updateAttempt(id, "latest", { status: "running" });
    expect(attempt).toEqual({ ...ended, status: "running" });
    expect(await store.getRollout(id)).toMatchObject({ status: "running", end_time: ended.end_time });
    await store.updateAttempt(id, "latest", { status: "succeeded" });
    expect((await store.getRollout(id))?.status).toBe("succeeded");
  });

  // K-6
  test("moving an attempt to another worker does not release the first", async () => {
    const store = memoryStore();
    const { rollout_id: id } = await store.startRollout({ input: 1, worker_id: "a" });
    await store.updateAttempt(id, "latest", { worker_id: "b" });
    expect((await store.getWorker("a"))?.status).toBe("busy");
    expect((await store.getWorker("b"))?.status).toBe("busy");
  });

  // E-16, T-6
  test("an empty worker id and empty metadata are values", async () => {
    const store = memoryStore();
    const { rollout_id: id } = await store.startRollout({ input: 1, worker_id: "a" });
    const attempt = await store.updateAttempt(id, "latest", { worker_id: "", metadata: {} });
    expect(attempt).toMatchObject({ worker_id: "", metadata: {} });
    expect(await store.getWorker("")).toBeNull();
  });

  // S-15, W-18
  test("unknown ids are refused in words, in order", async () => {
    const store = memoryStore();
    const waiting = await enqueueOne(store);
    const { rollout_id: id } = await store.startRollout({ input: 1 });
    const refusal = async (call: Promise<unknown>) => {
      const error = await call.then(
        () => undefined,
        (reason) => reason as StoreRequestError,
      );
      expect(error).toBeInstanceOf(StoreRequestError);
      expect(error?.status).toBe(404);
      return error?.detail;
    };
    expect(await refusal(store.updateAttempt("ro-x", "at-x", {}))).toBe("Rollout ro-x not found");
    expect(await refusal(store.updateAttempt(waiting, "latest", {}))).toBe(
      `Rollout ${waiting} has no attempts`,
    );
    expect(await refusal(store.updateAttempt(id, "at-x", {}))).toBe(
      `Attempt at-x not found in rollout ${id}`,
    );
    await refusal(store.startAttempt("ro-x"));
    await refusal(store.updateRollout("ro-x", {}));
    expect(await store.getRollout("ro-x")).toBeNull();
    expect(await store.getLatestAttempt("ro-x")).toBeNull();
  });
});

describe("updating a rollout", () => {
  // E-11, E-13, E-14, T-5
  test("presence decides, null clears, a config is replaced whole", async () => {
    const store = memoryStore();
    const config = { max_attempts: 3, timeout_seconds: 9 };
    const id = await enqueueOne(store, { mode: "train", resources_id: "rs-1", metadata: { a: 1 }, config });
    const before = await store.getRollout(id);
    expect(await store.updateRollout(id, {})).toEqual(before!);
    const patch = { input: null, mode: null, resources_id: null, metadata: null };
    expect(await store.updateRollout(id, patch)).toEqual({ ...before!, ...patch });
    const replaced = await store.updateRollout(id, { config: { max_attempts: 2 } });
    expect(replaced.config).toEqual({
      timeout_seconds: null,
      unresponsive_seconds: null,
      max_attempts: 2,
      retry_condition: [],
    });
    await dequeueOne(store);
    expect(await store.updateRollout(id, {})).not.toHaveProperty("attempt");
  });

  // S-9
  test("writing a finished status sets the end time every time", async () => {
    const store = memoryStore();
    const id = await enqueueOne(store);
    const first = await store.updateRollout(id, { status: "failed" });
    const second = await store.updateRollout(id, { status: "failed" });
    expect(second.end_time!).toBeGreaterThan(first.end_time!);
    expect((await store.updateRollout(id, { status: "running" })).end_time).toBe(second.end_time);
  });

  // S-20, section 11
  test("a cancelled rollout keeps its attempt and worker, and a late result does not revive it", async () => {
    const store = memoryStore();
    const { rollout_id: id } = await store.startRollout({ input: 1, worker_id: "w" });
    await store.updateRollout(id, { status: "cancelled" });
    expect(await store.getRollout(id)).toMatchObject({
      status: "cancelled",
      attempt: { status: "preparing" },
    });
    expect((await store.getWorker("w"))?.status).toBe("busy");
    await store.updateAttempt(id, "latest", { status: "succeeded" });
    expect(await store.getRollout(id)).toMatchObject({
      status: "cancelled",
      attempt: { status: "succeeded" },
    });
    expect((await store.getWorker("w"))?.status).toBe("idle");
  });

  // S-10, section 11
  test("a heartbeat of the attempt does not reopen a finished rollout", async () => {
    const store = memoryStore();
    const { rollout_id: id } = await store.startRollout({ input: 1 });
    await store.updateRollout(id, { status: "succeeded" });
    await store.updateAttempt(id, "latest", { last_heartbeat_time: 5 });
    expect(await store.getRollout(id)).toMatchObject({
      status: "succeeded",
      attempt: { last_heartbeat_time: 5 },
    });
  });
});
