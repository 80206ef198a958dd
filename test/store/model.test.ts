import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { attemptStatuses, rolloutStatuses } from "../../src/protocol/enums.ts";
import type { AttemptStatus, RolloutStatus } from "../../src/protocol/enums.ts";
import { openStore } from "../../src/store/sqlite-store.ts";
import type { SqliteStore } from "../../src/store/sqlite-store.ts";
import { sampleSpan } from "../helpers/sample-span.ts";
import { createTestClock } from "../helpers/test-clock.ts";

/**
 * A second, plainer telling of sections 5.1 to 5.6: a rollout and its attempts as bare statuses, the
 * queue as an array that holds stale entries. Random histories must leave the store where it leaves them.
 */
interface ModelRollout {
  status: RolloutStatus;
  ended: boolean;
  attempts: { status: AttemptStatus; start: number; beat: number | null }[];
}

const maxAttempts = 3;
const retried: readonly AttemptStatus[] = ["failed", "timeout"];
/** Not a whole number: the clock of the store moves a little with every look. */
const timeoutSeconds = 20.5;
const finished = ["failed", "succeeded", "cancelled"];

class Model {
  rollouts: ModelRollout[] = [];
  queue: number[] = [];
  time = 0;

  add(status: "queuing" | "preparing"): void {
    this.rollouts.push({ status, ended: false, attempts: [] });
    const index = this.rollouts.length - 1;
    if (status === "queuing") this.queue.push(index);
    else this.attempt(index);
  }

  attempt(index: number): void {
    const rollout = this.rollouts[index]!;
    rollout.attempts.push({ status: "preparing", start: this.time, beat: null });
    rollout.status = "preparing";
  }

  set(index: number, status: RolloutStatus): void {
    const rollout = this.rollouts[index]!;
    rollout.status = status;
    if (finished.includes(status)) rollout.ended = true;
    if (status.endsWith("queuing") && !this.queue.includes(index)) this.queue.push(index);
  }

  dequeue(): number | undefined {
    for (;;) {
      const index = this.queue.shift();
      if (index === undefined) return undefined;
      if (!this.rollouts[index]!.status.endsWith("queuing")) continue;
      this.attempt(index);
      return index;
    }
  }

  updateAttempt(index: number, number: number, status: AttemptStatus): void {
    const rollout = this.rollouts[index]!;
    rollout.attempts[number]!.status = status;
    if (number !== rollout.attempts.length - 1 || rollout.status === "cancelled") return;
    const good = ["preparing", "running", "succeeded"].includes(status);
    const again = retried.includes(status) && number + 1 < maxAttempts;
    const derived = (good ? status : again ? "requeuing" : "failed") as RolloutStatus;
    if (derived !== rollout.status) this.set(index, derived);
  }

  span(index: number, number: number): void {
    const rollout = this.rollouts[index]!;
    const attempt = rollout.attempts[number]!;
    attempt.beat = this.time;
    if (attempt.status === "preparing" || attempt.status === "unresponsive") attempt.status = "running";
    if (number !== rollout.attempts.length - 1) return;
    const recovers = rollout.status === "requeuing" && attempt.status === "running";
    if (rollout.status === "preparing" || recovers) rollout.status = "running";
  }

  scan(): void {
    this.rollouts.forEach((rollout, index) => {
      const latest = rollout.attempts.length - 1;
      if (latest < 0 || !["preparing", "running"].includes(rollout.status)) return;
      if (this.time - rollout.attempts[latest]!.start > timeoutSeconds)
        this.updateAttempt(index, latest, "timeout");
    });
  }
}

const which = fc.nat({ max: 5 });
const event = fc.oneof(
  fc.record({ kind: fc.constant("enqueue" as const) }),
  fc.record({ kind: fc.constant("start" as const) }),
  fc.record({ kind: fc.constant("dequeue" as const) }),
  fc.record({ kind: fc.constant("startAttempt" as const), which }),
  fc.record({ kind: fc.constant("setRollout" as const), which, status: fc.constantFrom(...rolloutStatuses) }),
  fc.record({
    kind: fc.constant("setAttempt" as const),
    which,
    number: which,
    status: fc.constantFrom(...attemptStatuses),
  }),
  fc.record({ kind: fc.constant("span" as const), which, number: which }),
  fc.record({ kind: fc.constant("pass" as const), seconds: fc.integer({ min: 1, max: 15 }) }),
);
type Event = typeof event extends fc.Arbitrary<infer Value> ? Value : never;

async function play(store: SqliteStore, advance: (seconds: number) => void, events: Event[]) {
  const model = new Model();
  const ids: string[] = [];
  const attempts: string[][] = [];
  const config = {
    timeout_seconds: timeoutSeconds,
    max_attempts: maxAttempts,
    retry_condition: [...retried],
  };
  const remember = (rolloutId: string, attemptId?: string) => {
    if (!ids.includes(rolloutId)) {
      ids.push(rolloutId);
      attempts.push([]);
    }
    if (attemptId !== undefined) attempts[ids.indexOf(rolloutId)]!.push(attemptId);
  };

  for (const step of events) {
    const index = "which" in step ? step.which % Math.max(1, ids.length) : 0;
    const number = "number" in step ? step.number % Math.max(1, attempts[index]?.length ?? 0) : 0;
    const rolloutId = ids[index];
    const attemptId = attempts[index]?.[number];
    if (step.kind !== "span" && step.kind !== "pass") model.scan();
    if (step.kind === "enqueue") {
      model.add("queuing");
      remember((await store.enqueueRollouts([{ input: 1, config }]))[0]!.rollout_id);
    } else if (step.kind === "start") {
      model.add("preparing");
      const started = await store.startRollout({ input: 1, config });
      remember(started.rollout_id, started.attempt.attempt_id);
    } else if (step.kind === "dequeue") {
      const expected = model.dequeue();
      const [taken] = await store.dequeueRollouts({});
      expect(taken?.rollout_id).toBe(expected === undefined ? undefined : ids[expected]);
      if (taken !== undefined) remember(taken.rollout_id, taken.attempt.attempt_id);
    } else if (step.kind === "pass") {
      model.time += step.seconds;
      advance(step.seconds);
    } else if (rolloutId === undefined) {
      continue;
    } else if (step.kind === "startAttempt") {
      model.attempt(index);
      remember(rolloutId, (await store.startAttempt(rolloutId)).attempt.attempt_id);
    } else if (step.kind === "setRollout") {
      model.set(index, step.status);
      await store.updateRollout(rolloutId, { status: step.status });
    } else if (attemptId === undefined) {
      continue;
    } else if (step.kind === "setAttempt") {
      model.updateAttempt(index, number, step.status);
      await store.updateAttempt(rolloutId, attemptId, { status: step.status });
    } else {
      model.span(index, number);
      await store.addSpan(sampleSpan({ rollout_id: rolloutId, attempt_id: attemptId }));
    }
  }
  return { model, ids };
}

// Sections 5.1 to 5.6
describe("random histories", () => {
  test("end in the store as they end in the model", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(event, { minLength: 1, maxLength: 60 }), async (events) => {
        const clock = createTestClock();
        const store = openStore({ path: ":memory:", scanDebounceSeconds: 0, now: clock.now });
        const { model, ids } = await play(store, clock.advance, events);
        model.scan();
        for (const [index, id] of ids.entries()) {
          const rollout = await store.getRollout(id);
          const expected = model.rollouts[index]!;
          expect([rollout?.status, rollout?.end_time !== null]).toEqual([expected.status, expected.ended]);
          const attempts = (await store.queryAttempts(id)).items;
          expect(attempts.map(({ status, sequence_id }) => [status, sequence_id])).toEqual(
            expected.attempts.map(({ status }, position) => [status, position + 1]),
          );
          const beats = attempts.map(({ last_heartbeat_time: beat }) => beat !== null);
          expect(beats).toEqual(expected.attempts.map(({ beat }) => beat !== null));
        }
        const left: (string | undefined)[] = [];
        for (let index = model.dequeue(); index !== undefined; index = model.dequeue()) left.push(ids[index]);
        const queued = await store.dequeueRollouts({ limit: 1000 });
        expect(queued.map(({ rollout_id }) => rollout_id)).toEqual(left as string[]);
        await store.close();
      }),
      { numRuns: 150 },
    );
  }, 60_000);
});
