import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { isFinished, rolloutStatuses } from "../../src/protocol/enums.ts";
import type { DequeueRequest } from "../../src/protocol/store-api.ts";
import type { AttemptedRollout, Rollout } from "../../src/protocol/types.ts";
import { HeldDequeues } from "../../src/store/waiting/held-dequeues.ts";
import { Holds } from "../../src/store/waiting/hold.ts";
import { memoryStore } from "../helpers/memory-store.ts";
import { soon } from "../helpers/soon.ts";
import { createTestClock } from "../helpers/test-clock.ts";

const settled = (promise: Promise<unknown>) =>
  Promise.race([promise.then(() => true), Bun.sleep(30).then(() => false)]);

async function storeWith(count: number) {
  const store = memoryStore();
  const rollouts = await store.enqueueRollouts(Array.from({ length: count }, (_, input) => ({ input })));
  const ids = rollouts.map(({ rollout_id }) => rollout_id);
  const finish = (id: string) => store.updateRollout(id, { status: "succeeded" });
  return { store, ids, finish };
}

describe("waiting for rollouts", () => {
  // E-17, E-18
  test("timeout 0 answers at once with what is finished, in the order of the request", async () => {
    const { store, ids, finish } = await storeWith(3);
    await finish(ids[0]!);
    await finish(ids[2]!);
    const request = [ids[2]!, ids[1]!, "ro-x", ids[0]!, ids[2]!];
    const found = await store.waitForRollouts({ rollout_ids: request, timeout: 0 });
    expect(found.map(({ rollout_id }) => rollout_id)).toEqual([ids[2]!, ids[0]!, ids[2]!]);
    expect(found[0]).not.toHaveProperty("attempt");
    expect(await soon(store.waitForRollouts({ rollout_ids: ids, timeout: -1 }))).toHaveLength(2);
  });

  // E-18, E-19, V-2, T-29
  test("without limit it is woken when the last known one is finished; every waiter is", async () => {
    const { store, ids, finish } = await storeWith(2);
    const waits = [1, 2, 3].map(() => store.waitForRollouts({ rollout_ids: [...ids, "ro-x"] }));
    await finish(ids[0]!);
    expect(await settled(Promise.race(waits))).toBe(false);
    await finish(ids[1]!);
    for (const found of await Promise.all(waits)) expect(found).toHaveLength(2);
  });

  // E-19: no timer stands between the commit and its waiters.
  test("the write that finishes the rollout wakes the waiter by itself", async () => {
    const { store, ids, finish } = await storeWith(1);
    let isAnswered = false;
    const wait = store.waitForRollouts({ rollout_ids: ids }).then(() => (isAnswered = true));
    expect(await settled(wait)).toBe(false);
    await finish(ids[0]!);
    for (let turn = 0; turn < 20 && !isAnswered; turn += 1) await new Promise(setImmediate);
    expect(isAnswered).toBe(true);
    await wait;
  });

  // E-18
  test("at the timeout the finished subset is returned", async () => {
    const { store, ids, finish } = await storeWith(2);
    await finish(ids[0]!);
    expect(await store.waitForRollouts({ rollout_ids: ids, timeout: 0.03 })).toHaveLength(1);
  });

  // E-17
  test("unknown ids are not waited for", async () => {
    const { store } = await storeWith(0);
    expect(await soon(store.waitForRollouts({ rollout_ids: ["ro-x"] }))).toEqual([]);
    expect(await soon(store.waitForRollouts({ rollout_ids: ["ro-x"], wait_seconds: 30 }))).toEqual([]);
    expect(await store.waitForRollouts({ rollout_ids: [] })).toEqual([]);
  });

  // V-1, V-3 as decided in section 11
  test("a reopened rollout is waited for again", async () => {
    const { store, ids, finish } = await storeWith(2);
    await finish(ids[0]!);
    const wait = store.waitForRollouts({ rollout_ids: ids });
    await Bun.sleep(5);
    await store.startAttempt(ids[0]!);
    await finish(ids[1]!);
    expect(await settled(wait)).toBe(false);
    await store.updateAttempt(ids[0]!, "latest", { status: "failed" });
    expect(await wait).toHaveLength(2);
  });

  test("wait_seconds holds until one is finished", async () => {
    const { store, ids, finish } = await storeWith(3);
    const wait = store.waitForRollouts({ rollout_ids: ids, wait_seconds: 30, timeout: 0 });
    expect(await settled(wait)).toBe(false);
    await finish(ids[1]!);
    expect((await soon(wait)).map(({ rollout_id }) => rollout_id)).toEqual([ids[1]!]);
    expect(await soon(store.waitForRollouts({ rollout_ids: ids, wait_seconds: 30 }))).toHaveLength(1);
    expect(await store.waitForRollouts({ rollout_ids: [ids[0]!], wait_seconds: 0.02 })).toEqual([]);
  });

  // H-1, H-4
  test("wait_seconds goes on looking for attempts that are overdue", async () => {
    const clock = createTestClock();
    const store = memoryStore({ now: clock.now });
    const { rollout_id } = await store.startRollout({ input: 1, config: { timeout_seconds: 5 } });
    const wait = store.waitForRollouts({ rollout_ids: [rollout_id], wait_seconds: 30 });
    await Bun.sleep(5);
    clock.advance(10);
    expect(await wait).toMatchObject([{ rollout_id, status: "failed" }]);
  });

  // E-20
  test("it ends when the caller goes away and when the store closes", async () => {
    const { store, ids, finish } = await storeWith(2);
    await finish(ids[0]!);
    const caller = new AbortController();
    const left = store.waitForRollouts({ rollout_ids: ids }, { signal: caller.signal });
    const closed = store.waitForRollouts({ rollout_ids: ids });
    expect(await settled(Promise.race([left, closed]))).toBe(false);
    caller.abort();
    expect(await left).toHaveLength(1);
    await store.close();
    expect(await closed).toEqual([]);
  });
});

interface RandomWait {
  rollouts: number[];
  until: "all" | "any";
  found?: Rollout[];
}

// E-17 to E-19, V-1 to V-3
test("random waits end with the change that they wait for, with what is finished then, and not before", async () => {
  const number = fc.nat({ max: 3 });
  const until = fc.constantFrom("all" as const, "any" as const);
  const event = fc.oneof(
    fc.record({ rollout: number, status: fc.constantFrom(...rolloutStatuses) }),
    fc.record({ rollouts: fc.uniqueArray(number, { maxLength: 3 }), until }),
  );
  const play = async (events: (typeof event extends fc.Arbitrary<infer Value> ? Value : never)[]) => {
    const { store, ids } = await storeWith(4);
    const finished = new Set<number>();
    const isDone = ({ rollouts, until }: RandomWait) =>
      until === "all" || rollouts.length === 0
        ? rollouts.every((number) => finished.has(number))
        : rollouts.some((number) => finished.has(number));
    let open: RandomWait[] = [];
    for (const event of events) {
      if ("status" in event) {
        await store.updateRollout(ids[event.rollout]!, { status: event.status });
        if (isFinished(event.status)) finished.add(event.rollout);
        else finished.delete(event.rollout);
      } else {
        const wait: RandomWait = { ...event };
        const rollout_ids = event.rollouts.map((number) => ids[number]!);
        const limit = event.until === "any" ? { wait_seconds: 30 } : {};
        void store.waitForRollouts({ rollout_ids, ...limit }).then((found) => (wait.found = found));
        open.push(wait);
      }
      // Whatever the event set going has been answered before the second of these.
      for (let reads = 0; reads < 2; reads += 1) await store.getRollout(ids[0]!);
      const found = open.map((wait) => wait.found?.map(({ rollout_id }) => ids.indexOf(rollout_id)));
      const expected = open.map((wait) =>
        isDone(wait) ? wait.rollouts.filter((number) => finished.has(number)) : undefined,
      );
      expect(found).toEqual(expected);
      open = open.filter((wait) => !isDone(wait));
    }
    await store.close();
  };
  await fc.assert(fc.asyncProperty(fc.array(event, { maxLength: 25, size: "max" }), play), { numRuns: 150 });
}, 30_000);

describe("a held dequeue", () => {
  test("is answered by the enqueue", async () => {
    const { store } = await storeWith(0);
    const held = store.dequeueRollouts({ worker_id: "w", wait_seconds: 30 });
    expect(await settled(held)).toBe(false);
    // K-5: it has marked the worker like any other
    expect(await store.getWorker("w")).toMatchObject({ status: "idle" });
    const [rollout] = await store.enqueueRollouts([{ input: 1 }]);
    expect(await held).toMatchObject([{ rollout_id: rollout!.rollout_id, attempt: { worker_id: "w" } }]);
    expect(await store.getWorker("w")).toMatchObject({ status: "busy" });
  });

  test("is answered by a retry that another's failure queues", async () => {
    const { store } = await storeWith(0);
    const config = { max_attempts: 2, retry_condition: ["failed" as const] };
    const { rollout_id } = await store.startRollout({ input: 1, config });
    const held = store.dequeueRollouts({ wait_seconds: 30 });
    await store.updateAttempt(rollout_id, "latest", { status: "failed" });
    expect(await held).toMatchObject([{ rollout_id, attempt: { sequence_id: 2 } }]);
  });

  test("comes first, in the order of arrival, also before a newcomer", async () => {
    const { store } = await storeWith(0);
    const held = ["a", "b", "c"].map((worker_id) => store.dequeueRollouts({ worker_id, wait_seconds: 30 }));
    await Bun.sleep(5);
    const enqueued = store.enqueueRollouts([{ input: 1 }, { input: 2 }]);
    const newcomer = store.dequeueRollouts({ worker_id: "late" });
    const [first, second] = await enqueued;
    expect((await held[0])![0]?.rollout_id).toBe(first!.rollout_id);
    expect((await held[1])![0]?.rollout_id).toBe(second!.rollout_id);
    expect(await newcomer).toEqual([]);
    expect(await settled(held[2]!)).toBe(false);
  });

  test("gets up to its limit", async () => {
    const { store } = await storeWith(0);
    const held = store.dequeueRollouts({ limit: 3, wait_seconds: 30 });
    await Bun.sleep(5);
    await store.enqueueRollouts([1, 2, 3, 4].map((input) => ({ input })));
    expect(await held).toHaveLength(3);
    expect(await store.dequeueRollouts({ limit: 3 })).toHaveLength(1);
  });

  // T-41
  test("of a caller that is gone gets nothing", async () => {
    const { store } = await storeWith(0);
    const caller = new AbortController();
    const held = store.dequeueRollouts({ worker_id: "gone", wait_seconds: 30 }, { signal: caller.signal });
    await Bun.sleep(5);
    caller.abort();
    expect(await soon(held)).toEqual([]);
    await store.enqueueRollouts([{ input: 1 }]);
    // Aborted between the request and its turn in the write queue.
    const late = new AbortController();
    const overtaken = store.dequeueRollouts({ worker_id: "gone" }, { signal: late.signal });
    late.abort();
    expect(await overtaken).toEqual([]);
    expect(await store.dequeueRollouts({ worker_id: "here" })).toHaveLength(1);
  });

  test("that is over in this very moment is not served", async () => {
    const held = new HeldDequeues();
    const holds = new Holds();
    const [gone, here] = [holds.open(null, undefined), holds.open(null, undefined)];
    const answers = [held.wait({ worker_id: "gone" }, gone), held.wait({ worker_id: "here" }, here)];
    gone.release();
    const claim = ({ worker_id }: DequeueRequest) => [{ rollout_id: worker_id } as AttemptedRollout];
    held.release(held.claimInTurn(claim));
    expect(await Promise.all(answers)).toEqual([[], [{ rollout_id: "here" } as AttemptedRollout]]);
  });

  test("ends empty when its time is over and when the store closes", async () => {
    const { store } = await storeWith(0);
    expect(await store.dequeueRollouts({ wait_seconds: 0.02 })).toEqual([]);
    const held = store.dequeueRollouts({ wait_seconds: 30 });
    await Bun.sleep(5);
    await store.close();
    expect(await soon(held)).toEqual([]);
    await expect(store.dequeueRollouts({})).rejects.toThrow("the store is closed");
  });

  test("keeps scanning: a silent attempt comes back to whoever is held", async () => {
    const clock = createTestClock();
    const store = memoryStore({ now: clock.now });
    const config = { timeout_seconds: 5, max_attempts: 2, retry_condition: ["timeout" as const] };
    const { rollout_id } = await store.startRollout({ input: 1, config });
    const held = store.dequeueRollouts({ wait_seconds: 30 });
    await Bun.sleep(5);
    clock.advance(10);
    expect(await held).toMatchObject([{ rollout_id, attempt: { sequence_id: 2 } }]);
  });
});
