import { describe, expect, test } from "bun:test";
import { StoreRequestError } from "../../src/errors.ts";
import { parseJson } from "../../src/protocol/json.ts";
import type { AttemptStatus, RolloutStatus } from "../../src/protocol/enums.ts";
import { memoryStore } from "../helpers/memory-store.ts";
import { sampleSpan } from "../helpers/sample-span.ts";
import { createTestClock } from "../helpers/test-clock.ts";

async function startedAttempt(store = memoryStore(), config = {}) {
  const { rollout_id, attempt } = await store.startRollout({ input: 1, config });
  return { store, ids: { rollout_id, attempt_id: attempt.attempt_id } };
}

describe("storing spans", () => {
  // P-2, P-3, T-2, T-3
  test("the first write of a key wins; the same span id may exist in another attempt", async () => {
    const { store, ids } = await startedAttempt();
    const span = sampleSpan({ ...ids, name: "first" });
    expect(await store.addSpan(span)).toEqual(span);
    expect(await store.addSpan({ ...span, name: "second", trace_id: "other" })).toBeNull();
    const { attempt } = await store.startAttempt(ids.rollout_id);
    expect(await store.addSpan({ ...span, attempt_id: attempt.attempt_id })).not.toBeNull();
    const page = await store.querySpans({ rollout_id: ids.rollout_id });
    expect(page.items.map(({ name }) => name)).toEqual(["first", "first"]);
  });

  // P-1
  test("an unknown rollout or attempt is refused", async () => {
    const { store, ids } = await startedAttempt();
    const other = await startedAttempt(store);
    const refused = (span: ReturnType<typeof sampleSpan>) => expect(store.addSpan(span)).rejects;
    await refused(sampleSpan({ ...ids, rollout_id: "ro-x" })).toThrow("Rollout ro-x not found");
    const foreign = sampleSpan({ ...ids, attempt_id: other.ids.attempt_id });
    await refused(foreign).toThrow(StoreRequestError);
    expect((await store.querySpans({ rollout_id: ids.rollout_id })).total).toBe(0);
  });

  // P-3 and our batch
  test("in a batch each span is judged alone", async () => {
    const { store, ids } = await startedAttempt();
    const span = sampleSpan(ids);
    const batch = [span, sampleSpan({ ...ids, rollout_id: "ro-x" }), span, sampleSpan(ids)];
    expect(await store.addSpans(batch)).toEqual({
      stored: 2,
      duplicates: 1,
      rejected: [{ index: 1, detail: "Rollout ro-x not found" }],
    });
    expect(await store.addSpans([])).toEqual({ stored: 0, duplicates: 0, rejected: [] });
  });

  // D-3, D-4, D-12
  test("extra members and digits are kept", async () => {
    const { store, ids } = await startedAttempt();
    const attributes = parseJson('{"reward":1.0,"n":12345678901234567890}') as any;
    await store.addSpan(sampleSpan({ ...ids, attributes, end_time: null, kind: "INTERNAL" }));
    const page = await store.querySpans({ rollout_id: ids.rollout_id });
    expect(page.items[0]).toMatchObject({ kind: "INTERNAL", attributes: { reward: 1 } });
    expect(JSON.stringify(page)).toContain('{"reward":1.0,"n":12345678901234567890}');
  });
});

// P-6
test("nothing is evicted: the oldest rollout's spans are there after megabytes of others", async () => {
  const { store, ids } = await startedAttempt();
  const oldest = sampleSpan({ ...ids, name: "oldest" });
  await store.addSpan(oldest);
  for (let count = 0; count < 20; count += 1) {
    const { ids: others } = await startedAttempt(store);
    const attributes = { text: crypto.getRandomValues(new Uint8Array(20_000)).toHex() };
    await store.addSpans(Array.from({ length: 20 }, () => sampleSpan({ ...others, attributes })));
  }
  expect((await store.querySpans({ rollout_id: ids.rollout_id })).items).toEqual([oldest]);
  expect((await store.statistics()).total_spans).toBe(401);
});

describe("a span's effect on its attempt and rollout", () => {
  const afterSpan = async (attempt: AttemptStatus, rollout: RolloutStatus) => {
    const { store, ids } = await startedAttempt();
    await store.updateAttempt(ids.rollout_id, ids.attempt_id, { status: attempt });
    await store.updateRollout(ids.rollout_id, { status: rollout });
    await store.addSpan(sampleSpan(ids));
    const after = (await store.getRollout(ids.rollout_id))!;
    if (!("attempt" in after)) throw new Error("the rollout has an attempt");
    expect(after.attempt.last_heartbeat_time).not.toBeNull();
    return [after.attempt.status, after.status];
  };

  // P-4, P-5, S-18; section 11 for the third row
  test.each([
    ["preparing", "preparing", "running", "running"],
    ["succeeded", "succeeded", "succeeded", "succeeded"],
    ["failed", "failed", "failed", "failed"],
    ["timeout", "failed", "timeout", "failed"],
    ["timeout", "requeuing", "timeout", "requeuing"],
    ["unresponsive", "failed", "running", "failed"],
    ["unresponsive", "requeuing", "running", "running"],
    ["running", "cancelled", "running", "cancelled"],
    ["preparing", "cancelled", "running", "cancelled"],
    ["preparing", "queuing", "running", "queuing"],
  ] as const)("attempt %s, rollout %s: %s, %s", async (attempt, rollout, newAttempt, newRollout) => {
    expect(await afterSpan(attempt, rollout)).toEqual([newAttempt, newRollout]);
  });

  // P-4.1
  test("it counts as a sign of life when it arrives, whatever times it names", async () => {
    const clock = createTestClock();
    const { store, ids } = await startedAttempt(memoryStore({ now: clock.now }));
    const { start_time: started } = (await store.getLatestAttempt(ids.rollout_id))!;
    clock.advance(10);
    await store.addSpan(sampleSpan({ ...ids, start_time: 1, end_time: 2 }));
    const { last_heartbeat_time: beat } = (await store.getLatestAttempt(ids.rollout_id))!;
    expect(Math.floor(beat! - started)).toBe(10);
  });

  // P-4
  test("a duplicate is no heartbeat", async () => {
    const { store, ids } = await startedAttempt();
    const span = sampleSpan(ids);
    await store.addSpan(span);
    const before = await store.getLatestAttempt(ids.rollout_id);
    await store.addSpan(span);
    expect(await store.getLatestAttempt(ids.rollout_id)).toEqual(before);
  });

  // S-19, T-20
  test("a late span of an old attempt revives that attempt only", async () => {
    const { store, ids } = await startedAttempt();
    await store.updateAttempt(ids.rollout_id, ids.attempt_id, { status: "unresponsive" });
    const retry = await store.startAttempt(ids.rollout_id);
    await store.addSpan(sampleSpan(ids));
    const attempts = await store.queryAttempts(ids.rollout_id);
    expect(attempts.items.map(({ status }) => status)).toEqual(["running", "preparing"]);
    expect(await store.getRollout(ids.rollout_id)).toEqual(retry);
  });

  // S-18, T-19
  test("a recovered attempt makes its queued retry stale, and is judged afresh", async () => {
    const retry = { max_attempts: 2, retry_condition: ["unresponsive"] };
    const { store, ids } = await startedAttempt(memoryStore(), retry);
    await store.updateAttempt(ids.rollout_id, "latest", { status: "unresponsive" });
    expect((await store.getRollout(ids.rollout_id))?.status).toBe("requeuing");
    await store.addSpan(sampleSpan(ids));
    expect(await store.dequeueRollouts({})).toEqual([]);
    await store.updateAttempt(ids.rollout_id, "latest", { status: "failed" });
    expect((await store.getRollout(ids.rollout_id))?.status).toBe("failed");
  });

  // K-3
  test("it does not move the worker", async () => {
    const store = memoryStore();
    const { rollout_id, attempt } = await store.startRollout({ input: 1, worker_id: "w" });
    const before = await store.getWorker("w");
    await store.addSpan(sampleSpan({ rollout_id, attempt_id: attempt.attempt_id }));
    expect(await store.getWorker("w")).toEqual(before);
  });
});

describe("sequence numbers", () => {
  // N-1, T-13
  test("one counter per rollout, for any attempt and even an unknown rollout", async () => {
    const store = memoryStore();
    const numbers = [
      await store.nextSequenceId("ro-a", "at-1"),
      await store.nextSequenceId("ro-b", "at-1"),
      await store.nextSequenceId("ro-a", "at-2"),
    ];
    expect(numbers).toEqual([1, 1, 2]);
  });

  // N-2, T-14
  test("an explicit number raises the counter, a low one leaves it", async () => {
    const { store, ids } = await startedAttempt();
    const next = () => store.nextSequenceId(ids.rollout_id, ids.attempt_id);
    await store.addSpan(sampleSpan({ ...ids, sequence_id: 0 }));
    expect(await next()).toBe(1);
    await store.addSpan(sampleSpan({ ...ids, sequence_id: 100 }));
    expect(await next()).toBe(101);
    await store.addSpan(sampleSpan({ ...ids, sequence_id: -5 }));
    expect(await next()).toBe(102);
  });

  // N-3
  test("duplicates and refused spans raise it, too", async () => {
    const { store, ids } = await startedAttempt();
    const span = sampleSpan(ids);
    await store.addSpan(span);
    await store.addSpan({ ...span, sequence_id: 50 });
    expect(await store.nextSequenceId(ids.rollout_id, "")).toBe(51);
    const refused = sampleSpan({ rollout_id: "ro-x", attempt_id: "at-x", sequence_id: 7 });
    await store.addSpan(refused).catch(() => {});
    expect(await store.nextSequenceId("ro-x", "")).toBe(8);
  });

  // N-2
  test("a negative number leaves a counter that has not begun", async () => {
    const { store, ids } = await startedAttempt();
    await store.addSpan(sampleSpan({ ...ids, sequence_id: -5 }));
    expect(await store.nextSequenceId(ids.rollout_id, ids.attempt_id)).toBe(1);
  });

  // N-4
  test("questions asked together are answered in their order", async () => {
    const store = memoryStore();
    const pairs = [
      ["A", 1],
      ["B", 1],
      ["A", 2],
      ["A", 1],
    ] as const;
    const asked = pairs.map(([rollout, attempt]) => store.nextSequenceId(rollout, `at-${attempt}`));
    expect(await Promise.all(asked)).toEqual([1, 1, 2, 3]);
  });

  // N-5
  test("concurrent requests get different numbers without a gap", async () => {
    const store = memoryStore();
    const numbers = await Promise.all(Array.from({ length: 200 }, () => store.nextSequenceId("ro", "at")));
    expect(numbers.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 200 }, (_, index) => index + 1));
  });
});
