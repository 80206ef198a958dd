import { isEnded } from "../../protocol/enums.ts";
import type { AttemptTable } from "../tables/attempt-table.ts";

/** When an attempt ended or was followed by another; null while it runs, or when there is none. */
export function endOfAttempt(attempts: AttemptTable, rolloutId: string, attemptId: string): number | null {
  const attempt = attempts.get(rolloutId, attemptId);
  if (attempt === null) return null;
  const next = attempts.bySequence(rolloutId, attempt.sequence_id + 1)?.start_time ?? null;
  const own = isEnded(attempt.status) ? (attempt.end_time ?? attempt.start_time) : null;
  if (own === null || next === null) return own ?? next;
  return Math.min(own, next);
}
