import fc from "fast-check";
import { attemptStatuses, rolloutStatuses } from "../../src/protocol/enums.ts";
import type { RolloutStatus } from "../../src/protocol/enums.ts";
import type { RolloutConfig } from "../../src/protocol/types.ts";
import type { AttemptChange, AttemptNumber, RolloutNumber, SpanArrival } from "./lifecycle-model.ts";

/** Something that happens to a store. */
export type Event =
  | { kind: "enqueue"; config: RolloutConfig }
  | { kind: "start"; config: RolloutConfig; worker: string | null }
  | { kind: "dequeue"; limit: number; worker: string | null }
  | { kind: "startAttempt"; rollout: RolloutNumber; worker: string | null }
  | {
      kind: "updateRollout";
      rollout: RolloutNumber;
      change: { status?: RolloutStatus; config?: RolloutConfig };
    }
  | {
      kind: "updateAttempt";
      rollout: RolloutNumber;
      attempt: AttemptNumber;
      /** `beat` in seconds before now. */
      change: AttemptChange;
    }
  | { kind: "spans"; arrivals: SpanArrival[] }
  | { kind: "nextSequence"; rollout: RolloutNumber }
  | { kind: "heartbeat"; worker: string; stats: number | null }
  | { kind: "finished"; rollouts: RolloutNumber[] }
  | { kind: "pass"; seconds: number };

const rollout = fc.oneof({ weight: 9, arbitrary: fc.integer({ min: 1, max: 3 }) }, fc.constant(7));
const attemptNumber = fc.oneof({ weight: 9, arbitrary: fc.integer({ min: 1, max: 3 }) }, fc.constant(7));
const attempt = fc.oneof(fc.constant("latest" as const), attemptNumber);
const workerId = fc.constantFrom("Worker-0", "Worker-1");
const worker = fc.option(fc.oneof({ weight: 5, arbitrary: workerId }, fc.constant("")), { freq: 3 });

/** Halves, so that what the store's clock moves by itself decides nothing. */
const config: fc.Arbitrary<RolloutConfig> = fc.record({
  timeout_seconds: fc.constantFrom(null, 9.5, 25.5),
  unresponsive_seconds: fc.constantFrom(null, 4.5, 12.5),
  max_attempts: fc.integer({ min: 1, max: 3 }),
  retry_condition: fc.subarray([...attemptStatuses]),
});

const span: fc.Arbitrary<SpanArrival> = fc.record({
  rollout,
  attempt: attemptNumber,
  span: fc.nat({ max: 3 }),
  sequence: fc.integer({ min: -1, max: 6 }),
});

const kind = <Name extends Event["kind"]>(name: Name) => fc.constant(name);

export const anyEvent: fc.Arbitrary<Event> = fc.oneof(
  { weight: 2, arbitrary: fc.record({ kind: kind("enqueue"), config }) },
  { weight: 2, arbitrary: fc.record({ kind: kind("start"), config, worker }) },
  { weight: 4, arbitrary: fc.record({ kind: kind("dequeue"), limit: fc.nat({ max: 3 }), worker }) },
  { weight: 2, arbitrary: fc.record({ kind: kind("startAttempt"), rollout, worker }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: kind("updateRollout"),
      rollout,
      change: fc.record({ status: fc.constantFrom(...rolloutStatuses), config }, { requiredKeys: [] }),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      kind: kind("updateAttempt"),
      rollout,
      attempt,
      change: fc.record(
        {
          status: fc.constantFrom(...attemptStatuses),
          worker: fc.oneof(workerId, fc.constant("")),
          beat: fc.nat({ max: 20 }),
        },
        { requiredKeys: [] },
      ),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: kind("spans"),
      arrivals: fc.array(span, { minLength: 1, maxLength: 3 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: kind("nextSequence"), rollout }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: kind("heartbeat"), worker: workerId, stats: fc.option(fc.nat({ max: 9 })) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: kind("finished"), rollouts: fc.array(rollout, { maxLength: 3 }) }),
  },
  { weight: 4, arbitrary: fc.record({ kind: kind("pass"), seconds: fc.integer({ min: 1, max: 15 }) }) },
);

/** An event in words, for the report of a history that went wrong. */
export function inWords(event: Event): string {
  switch (event.kind) {
    case "enqueue":
      return `enqueue a rollout${withConfig(event.config)}`;
    case "start":
      return `start a rollout${by(event.worker)}${withConfig(event.config)}`;
    case "dequeue":
      return `dequeue up to ${event.limit}${by(event.worker)}`;
    case "startAttempt":
      return `start an attempt of rollout ${event.rollout}${by(event.worker)}`;
    case "updateRollout":
      return `update rollout ${event.rollout}: ${members(event.change)}`;
    case "updateAttempt":
      return `update attempt ${event.attempt} of rollout ${event.rollout}: ${members(event.change)}`;
    case "spans":
      return event.arrivals
        .map(
          ({ rollout, attempt, span, sequence }) =>
            `span ${span} (number ${sequence}) of attempt ${attempt} of rollout ${rollout}`,
        )
        .join(", ");
    case "nextSequence":
      return `next sequence number of rollout ${event.rollout}`;
    case "heartbeat":
      return `heartbeat of ${event.worker}, statistics ${event.stats ?? "absent"}`;
    case "finished":
      return `which of rollouts [${event.rollouts.join(", ")}] are finished`;
    case "pass":
      return `${event.seconds} s pass`;
  }
}

function by(worker: string | null): string {
  return worker === null ? "" : ` by "${worker}"`;
}

function withConfig(config: RolloutConfig): string {
  const { timeout_seconds: timeout, unresponsive_seconds: silence, max_attempts, retry_condition } = config;
  return [
    "",
    ...(timeout === null ? [] : [`at most ${timeout} s`]),
    ...(silence === null ? [] : [`silent at most ${silence} s`]),
    ...(max_attempts === 1 ? [] : [`${max_attempts} attempts`]),
    ...(retry_condition.length === 0 ? [] : [`retried when ${retry_condition.join(" or ")}`]),
  ].join(", ");
}

function members(
  change: Omit<AttemptChange, "status"> & { status?: string; config?: RolloutConfig },
): string {
  const { status, worker, beat, config } = change;
  const parts = [
    ...(status === undefined ? [] : [`status ${status}`]),
    ...(worker === undefined ? [] : [`worker "${worker}"`]),
    ...(beat === undefined ? [] : [`heartbeat ${beat} s ago`]),
    ...(config === undefined ? [] : [`config${withConfig(config) || " with the defaults"}`]),
  ];
  return parts.length === 0 ? "nothing" : parts.join(", ");
}
