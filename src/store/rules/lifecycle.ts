import { isFinished } from "../../protocol/enums.ts";
import type { AttemptStatus, RolloutStatus } from "../../protocol/enums.ts";
import type { AttemptPatch } from "../../protocol/store-api.ts";
import type { Attempt, Rollout, RolloutConfig } from "../../protocol/types.ts";

/** What the rules of the life cycle read and write of a rollout. */
export type RolloutState = Pick<Rollout, "status" | "end_time">;
/** What the rules of the life cycle read and write of an attempt. */
export type AttemptState = Pick<
  Attempt,
  "status" | "start_time" | "end_time" | "last_heartbeat_time" | "sequence_id"
>;

export const defaultConfig: RolloutConfig = {
  timeout_seconds: null,
  unresponsive_seconds: null,
  max_attempts: 1,
  retry_condition: [],
};

/** S-8: what the status of its latest attempt makes of a rollout. */
export function rolloutStatusFor(
  attempt: Pick<Attempt, "status" | "sequence_id">,
  config: RolloutConfig,
): RolloutStatus {
  switch (attempt.status) {
    case "preparing":
    case "running":
    case "succeeded":
      return attempt.status;
    case "failed":
    case "timeout":
    case "unresponsive": {
      const retried =
        config.retry_condition.includes(attempt.status) && attempt.sequence_id < config.max_attempts;
      return retried ? "requeuing" : "failed";
    }
  }
}

/** S-9: an end time is set by every finished status and never cleared. */
export function withRolloutStatus(rollout: RolloutState, status: RolloutStatus, now: number): RolloutState {
  return { status, end_time: isFinished(status) ? now : rollout.end_time };
}

/** S-13: only `failed` and `succeeded` end an attempt. */
export function withAttemptStatus<State extends AttemptState>(
  attempt: State,
  status: AttemptStatus,
  now: number,
): State {
  const ends = status === "failed" || status === "succeeded";
  return { ...attempt, status, end_time: ends ? now : attempt.end_time };
}

/**
 * S-8, S-10, S-20: the rollout after an update of its latest attempt, or null when it stays as it is.
 * A finished rollout follows only an update that names a status, and a cancelled one none at all.
 */
export function propagate(change: {
  rollout: RolloutState;
  config: RolloutConfig;
  attempt: Pick<Attempt, "status" | "sequence_id">;
  statusGiven: boolean;
  now: number;
}): RolloutState | null {
  const { rollout, config, attempt, statusGiven, now } = change;
  if (rollout.status === "cancelled") return null;
  if (isFinished(rollout.status) && !statusGiven) return null;
  const derived = rolloutStatusFor(attempt, config);
  return derived === rollout.status ? null : withRolloutStatus(rollout, derived, now);
}

/** E-15: each member that is present replaces the attempt's. */
export function withAttemptPatch<State extends AttemptState>(
  attempt: State,
  patch: Partial<State>,
  now: number,
): State {
  const present = Object.entries(patch).filter(([, value]) => value !== undefined);
  const patched: State = { ...attempt, ...Object.fromEntries(present) };
  return patch.status === undefined ? patched : withAttemptStatus(patched, patch.status, now);
}

/** K-3: an update that names a worker, or a status of an attempt that has one, moves that worker. */
export function movesWorker(attempt: Pick<Attempt, "worker_id">, patch: AttemptPatch): boolean {
  if (patch.worker_id !== undefined) return patch.worker_id !== "";
  return patch.status !== undefined && attempt.worker_id !== null && attempt.worker_id !== "";
}
