import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { attemptStatuses, isFinished, rolloutStatuses } from "../../src/protocol/enums.ts";
import type { AttemptStatus, RolloutStatus } from "../../src/protocol/enums.ts";
import type { RolloutConfig } from "../../src/protocol/types.ts";
import { ScanDebounce, overdueStatus } from "../../src/store/rules/health.ts";
import {
  defaultConfig,
  movesWorker,
  propagate,
  rolloutStatusFor,
  withAttemptPatch,
  withRolloutStatus,
} from "../../src/store/rules/lifecycle.ts";
import { attemptAfterSpan, rolloutAfterSpan } from "../../src/store/rules/span-effects.ts";
import { newWorker, syncedWorker, workerAfterEmptyDequeue } from "../../src/store/rules/worker-rules.ts";

const attempt = (status: AttemptStatus, members = {}) => ({
  status,
  start_time: 100,
  end_time: null as number | null,
  last_heartbeat_time: null as number | null,
  sequence_id: 1,
  ...members,
});

const config = (members: Partial<RolloutConfig> = {}): RolloutConfig => ({ ...defaultConfig, ...members });

const anyAttemptStatus = fc.constantFrom(...attemptStatuses);
const anyRolloutStatus = fc.constantFrom(...rolloutStatuses);
const anyConfig = fc.record({
  timeout_seconds: fc.constant(null),
  unresponsive_seconds: fc.constant(null),
  max_attempts: fc.integer({ min: 1, max: 4 }),
  retry_condition: fc.uniqueArray(anyAttemptStatus),
});

// S-8, T-17
describe("what an attempt makes of its rollout", () => {
  test.each(["preparing", "running", "succeeded"] as const)(
    "%s passes through, whatever is retried",
    (status) => {
      fc.assert(
        fc.property(anyConfig, (any) => {
          expect(rolloutStatusFor(attempt(status), any)).toBe(status);
        }),
      );
    },
  );

  test.each(["failed", "timeout", "unresponsive"] as const)(
    "%s is retried only when listed and left",
    (status) => {
      const listed = config({ retry_condition: [status], max_attempts: 2 });
      expect(rolloutStatusFor(attempt(status), listed)).toBe("requeuing");
      // S-16
      expect(rolloutStatusFor(attempt(status, { sequence_id: 2 }), listed)).toBe("failed");
      expect(rolloutStatusFor(attempt(status), config({ max_attempts: 9 }))).toBe("failed");
      expect(rolloutStatusFor(attempt(status), config({ retry_condition: [status] }))).toBe("failed");
    },
  );
});

describe("propagation", () => {
  const change = (rollout: RolloutStatus, status: AttemptStatus, statusGiven = true, any = config()) =>
    propagate({
      rollout: { status: rollout, end_time: 50 },
      config: any,
      attempt: attempt(status),
      statusGiven,
      now: 200,
    });

  // S-9
  test("an end time is set by every finished status and never cleared", () => {
    for (const status of rolloutStatuses) {
      const after = withRolloutStatus({ status: "running", end_time: 50 }, status, 200);
      expect(after).toEqual({ status, end_time: isFinished(status) ? 200 : 50 });
    }
  });

  // S-20 as decided in section 11
  test("a cancelled rollout stays cancelled", () => {
    for (const status of attemptStatuses) expect(change("cancelled", status)).toBeNull();
  });

  // S-10 as decided in section 11
  test("an update without a status does not reopen a finished rollout", () => {
    expect(change("succeeded", "running", false)).toBeNull();
    expect(change("failed", "running", false)).toBeNull();
    expect(change("failed", "running", true)).toEqual({ status: "running", end_time: 50 });
    expect(change("preparing", "running", false)).toEqual({ status: "running", end_time: 50 });
  });

  test("it either changes the status to the derived one or does nothing", () => {
    fc.assert(
      fc.property(
        anyRolloutStatus,
        anyAttemptStatus,
        fc.boolean(),
        anyConfig,
        (rollout, status, given, any) => {
          const after = change(rollout, status, given, any);
          if (after === null) return;
          expect(after.status).toBe(rolloutStatusFor(attempt(status), any));
          expect(after.status).not.toBe(rollout);
          expect(after.end_time).toBe(isFinished(after.status) ? 200 : 50);
        },
      ),
    );
  });
});

describe("an attempt's own members", () => {
  // S-13, T-22
  test("only failed and succeeded end it; nothing clears the end", () => {
    for (const status of attemptStatuses) {
      const ends = status === "failed" || status === "succeeded";
      expect(withAttemptPatch(attempt("running"), { status }, 200).end_time).toBe(ends ? 200 : null);
      const ended = attempt("failed", { end_time: 50 });
      expect(withAttemptPatch(ended, { status }, 200).end_time).toBe(ends ? 200 : 50);
    }
  });

  // E-15
  test("absent members stay", () => {
    const before = attempt("running", { last_heartbeat_time: 7 });
    expect(withAttemptPatch(before, {}, 200)).toEqual(before);
    expect(withAttemptPatch(before, { last_heartbeat_time: 9 }, 200).last_heartbeat_time).toBe(9);
  });

  // K-3
  test("which updates move a worker", () => {
    expect(movesWorker({ worker_id: "w" }, { status: "running" })).toBe(true);
    expect(movesWorker({ worker_id: "w" }, { metadata: {} })).toBe(false);
    expect(movesWorker({ worker_id: "w" }, { last_heartbeat_time: 1 })).toBe(false);
    expect(movesWorker({ worker_id: null }, { status: "running" })).toBe(false);
    expect(movesWorker({ worker_id: "v" }, { worker_id: "v" })).toBe(true);
    expect(movesWorker({ worker_id: "" }, { worker_id: "" })).toBe(false);
  });
});

// P-4, P-5
describe("a new span", () => {
  test.each([
    ["preparing", "running"],
    ["unresponsive", "running"],
    ["running", "running"],
    ["failed", "failed"],
    ["succeeded", "succeeded"],
    // T-21
    ["timeout", "timeout"],
  ] as const)("finds the attempt %s and leaves it %s with a heartbeat", (before, after) => {
    const changed = attemptAfterSpan(attempt(before), 300);
    expect(changed).toEqual(attempt(after, { last_heartbeat_time: 300 }));
  });

  test("starts a preparing rollout and recovers a requeuing one only with a running attempt", () => {
    for (const rollout of rolloutStatuses) {
      for (const status of attemptStatuses) {
        const after = rolloutAfterSpan({ status: rollout, end_time: 5 }, { status });
        const runs = rollout === "preparing" || (rollout === "requeuing" && status === "running");
        expect(after).toEqual(runs ? { status: "running", end_time: 5 } : null);
      }
    }
  });
});

// H-4
describe("an attempt is overdue", () => {
  const limits = { timeout_seconds: 10, unresponsive_seconds: 5 };

  test.each([
    ["at the limit nothing happens", 105, null, null],
    ["without a heartbeat the start counts", 105.1, null, "unresponsive"],
    ["a heartbeat in time keeps it", 109, 105, null],
    ["a silent one is unresponsive", 109, 103.5, "unresponsive"],
    ["timeout wins over unresponsive", 110.1, 103, "timeout"],
    ["heartbeats do not stop a timeout", 110.1, 110, "timeout"],
    // section 11
    ["a heartbeat at 0 is a time", 104, 0, "unresponsive"],
  ] as const)("%s", (_name, now, last_heartbeat_time, expected) => {
    expect(overdueStatus({ start_time: 100, last_heartbeat_time }, limits, now)).toBe(expected);
  });

  test("never without limits", () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true }), (now) => {
        expect(overdueStatus({ start_time: 0, last_heartbeat_time: null }, defaultConfig, now)).toBeNull();
      }),
    );
  });

  // H-1, T-25
  test("scans are debounced from start to start", () => {
    const debounce = new ScanDebounce(10);
    expect([100, 105, 109.9, 110, 111, 119.9, 120].map((now) => debounce.isDue(now))).toEqual([
      true,
      false,
      false,
      true,
      false,
      false,
      true,
    ]);
    const always = new ScanDebounce(0);
    expect([1, 1, 1].map((now) => always.isDue(now))).toEqual([true, true, true]);
  });

  test("a clock set back does not stop the scans", () => {
    const debounce = new ScanDebounce(10);
    debounce.isDue(1000);
    expect(debounce.isDue(500)).toBe(true);
  });
});

describe("a worker", () => {
  const busy = syncedWorker(newWorker("w"), { rollout_id: "r", attempt_id: "a", status: "running" }, 10);

  // K-2, T-27
  test.each([
    ["preparing", "busy"],
    ["running", "busy"],
    ["succeeded", "idle"],
    ["failed", "idle"],
    ["timeout", "unknown"],
    ["unresponsive", "unknown"],
  ] as const)("with an attempt that is %s is %s", (status, expected) => {
    const worker = syncedWorker(busy, { rollout_id: "r", attempt_id: "b", status }, 20);
    const assigned = expected === "busy";
    expect(worker).toEqual({
      ...busy,
      status: expected,
      last_busy_time: assigned ? 20 : 10,
      last_idle_time: assigned ? null : 20,
      current_rollout_id: assigned ? "r" : null,
      current_attempt_id: assigned ? "b" : null,
    });
  });

  // K-5, section 11
  test("is idle and unassigned after an empty dequeue", () => {
    const idle = workerAfterEmptyDequeue(busy, 30);
    expect(idle).toMatchObject({ status: "idle", last_idle_time: 30, last_dequeue_time: 30 });
    expect(idle).toMatchObject({ current_rollout_id: null, current_attempt_id: null });
    expect(workerAfterEmptyDequeue(idle, 40)).toEqual({ ...idle, last_dequeue_time: 40 });
  });
});
