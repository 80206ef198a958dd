import { describe, expect, test } from "bun:test";
import { memoryStore } from "../helpers/memory-store.ts";
import { createTestClock } from "../helpers/test-clock.ts";

async function busyWorker(config = {}) {
  const clock = createTestClock();
  const store = memoryStore({ now: clock.now });
  await store.enqueueRollouts([{ input: 1, config }]);
  const [rollout] = await store.dequeueRollouts({ worker_id: "w" });
  const worker = async () => (await store.getWorker("w"))!;
  return { clock, store, rollout: rollout!, worker };
}

describe("a worker", () => {
  // K-1, K-2, K-3
  test("comes into being with its first dequeue, which is noted beside what it works on", async () => {
    const { rollout, worker } = await busyWorker();
    const { last_dequeue_time: dequeued, last_busy_time: busy, ...rest } = await worker();
    expect(rest).toEqual({
      worker_id: "w",
      status: "busy",
      heartbeat_stats: null,
      last_heartbeat_time: null,
      last_idle_time: null,
      current_rollout_id: rollout.rollout_id,
      current_attempt_id: rollout.attempt.attempt_id,
    });
    expect(dequeued).toBeGreaterThanOrEqual(rollout.attempt.start_time);
    expect(busy).toBeGreaterThanOrEqual(rollout.attempt.start_time);
  });

  // K-1, K-8
  test("that only sends heartbeats is unknown", async () => {
    const store = memoryStore();
    expect(await store.updateWorker("w", { cpu: 1 })).toEqual({
      worker_id: "w",
      status: "unknown",
      heartbeat_stats: { cpu: 1 },
      last_heartbeat_time: expect.any(Number),
      last_dequeue_time: null,
      last_busy_time: null,
      last_idle_time: null,
      current_rollout_id: null,
      current_attempt_id: null,
    });
  });

  // K-8
  test("keeps status, assignment and times when it sends a heartbeat", async () => {
    const { clock, store, worker } = await busyWorker();
    const before = await worker();
    clock.advance(5);
    const after = await store.updateWorker("w", { cpu: 2 });
    expect(after.last_heartbeat_time!).toBeGreaterThan(before.last_busy_time! + 4);
    expect(after).toEqual({
      ...before,
      heartbeat_stats: { cpu: 2 },
      last_heartbeat_time: after.last_heartbeat_time,
    });
  });

  // K-3
  test.each([
    ["metadata", { metadata: { a: 1 } }],
    ["a heartbeat", { last_heartbeat_time: 5 }],
    ["an empty worker id", { worker_id: "" }],
    ["nothing", {}],
  ])("is not moved by an update of its attempt with %s", async (_name, patch) => {
    const { store, rollout, worker } = await busyWorker();
    const before = await worker();
    await store.updateAttempt(rollout.rollout_id, "latest", patch);
    await store.updateRollout(rollout.rollout_id, { status: "cancelled" });
    expect(await worker()).toEqual(before);
  });

  // K-3
  test("is busy again when its attempt reports running after it had failed", async () => {
    const { store, rollout, worker } = await busyWorker();
    await store.updateAttempt(rollout.rollout_id, "latest", { status: "failed" });
    expect(await worker()).toMatchObject({ status: "idle", current_attempt_id: null });
    await store.updateAttempt(rollout.rollout_id, "latest", { status: "running" });
    const { attempt_id: current_attempt_id } = rollout.attempt;
    expect(await worker()).toMatchObject({ status: "busy", current_attempt_id });
  });

  // K-7
  test("is idle once an old attempt of its ends, although it works on a newer one", async () => {
    const { store, rollout, worker } = await busyWorker();
    await store.startAttempt(rollout.rollout_id, "w");
    await store.updateAttempt(rollout.rollout_id, rollout.attempt.attempt_id, { status: "failed" });
    expect(await worker()).toMatchObject({ status: "idle", current_attempt_id: null });
  });

  // K-5, section 11
  test("that was unknown after a timeout is idle after a dequeue that found nothing", async () => {
    const { clock, store, worker } = await busyWorker({ timeout_seconds: 5 });
    clock.advance(6);
    await store.queryWorkers({});
    const lost = await worker();
    expect(lost).toMatchObject({ status: "unknown", current_rollout_id: null });
    await store.dequeueRollouts({ worker_id: "w" });
    const idle = await worker();
    expect(idle.status).toBe("idle");
    expect(idle.last_idle_time!).toBeGreaterThan(lost.last_idle_time!);
    expect(idle.last_busy_time).toBe(lost.last_busy_time);
  });
});
