import type { RolloutConfig } from "../../protocol/types.ts";
import type { AttemptState } from "./lifecycle.ts";

/** H-4: what is wrong with the latest attempt of an active rollout. Comparisons are strict. */
export function overdueStatus(
  attempt: Pick<AttemptState, "start_time" | "last_heartbeat_time">,
  config: Pick<RolloutConfig, "timeout_seconds" | "unresponsive_seconds">,
  now: number,
): "timeout" | "unresponsive" | null {
  if (config.timeout_seconds !== null && now - attempt.start_time > config.timeout_seconds) return "timeout";
  if (config.unresponsive_seconds === null) return null;
  const lastSign = attempt.last_heartbeat_time ?? attempt.start_time;
  return now - lastSign > config.unresponsive_seconds ? "unresponsive" : null;
}

/** H-1: at most one scan per `debounceSeconds`, counted from start to start. */
export class ScanDebounce {
  readonly #debounceSeconds: number;
  #last = Number.NEGATIVE_INFINITY;

  constructor(debounceSeconds: number) {
    this.#debounceSeconds = debounceSeconds;
  }

  /** True at most once per period; a clock set back does not stop the scans. */
  isDue(now: number): boolean {
    const elapsed = now - this.#last;
    if (elapsed >= 0 && elapsed < this.#debounceSeconds) return false;
    this.#last = now;
    return true;
  }
}
