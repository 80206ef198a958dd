import type { AttemptState, RolloutState } from "./lifecycle.ts";

/** P-4.1, P-4.2: a new span is a heartbeat and revives an attempt that is preparing or unresponsive. */
export function attemptAfterSpan<State extends AttemptState>(attempt: State, now: number): State {
  const revived = attempt.status === "preparing" || attempt.status === "unresponsive";
  return { ...attempt, last_heartbeat_time: now, status: revived ? "running" : attempt.status };
}

/**
 * P-4.3, P-5: the rollout after a span of its latest attempt, or null when it stays as it is.
 * A queued retry is withdrawn only when the attempt itself runs again.
 */
export function rolloutAfterSpan(
  rollout: RolloutState,
  attempt: Pick<AttemptState, "status">,
): RolloutState | null {
  const starts = rollout.status === "preparing";
  const recovers = rollout.status === "requeuing" && attempt.status === "running";
  return starts || recovers ? { ...rollout, status: "running" } : null;
}
