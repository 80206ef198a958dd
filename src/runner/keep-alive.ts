import { messageOf } from "../errors.ts";
import { isFinished } from "../protocol/enums.ts";
import type { StoreApi } from "../protocol/store-api.ts";
import type { AttemptedRollout, Rollout } from "../protocol/types.ts";

export interface KeepAliveOptions {
  store: StoreApi;
  intervalSeconds: number;
  /** The rollout was cancelled, the store gave the attempt up, or a newer attempt has taken its place. */
  onEndedElsewhere: (message: string) => void;
  onTrouble: (message: string) => void;
}

/** Renews an attempt's `last_heartbeat_time` until the returned function is called. */
export function keepAlive(rollout: AttemptedRollout, options: KeepAliveOptions): () => void {
  const { store, onEndedElsewhere, onTrouble } = options;
  const { rollout_id: rolloutId, attempt } = rollout;
  let stopped = false;
  let busy = false;
  const beat = async () => {
    if (busy) return;
    busy = true;
    try {
      const current = await store.getRollout(rolloutId);
      const ending = current === null ? "the rollout no longer exists" : endOf(current, attempt.attempt_id);
      if (stopped) return;
      // Looked at first, because a store of upstream's revives a cancelled rollout on a heartbeat.
      if (ending !== null) onEndedElsewhere(ending);
      else
        await store.updateAttempt(rolloutId, attempt.attempt_id, { last_heartbeat_time: Date.now() / 1000 });
    } catch (error) {
      if (!stopped) onTrouble(messageOf(error));
    } finally {
      busy = false;
    }
  };
  const timer = setInterval(() => void beat(), Math.max(0.05, options.intervalSeconds) * 1000);
  return () => {
    stopped = true;
    clearInterval(timer);
  };
}

function endOf(rollout: Rollout | AttemptedRollout, attemptId: string): string | null {
  if (isFinished(rollout.status)) return `the rollout is ${rollout.status}`;
  const latest = "attempt" in rollout ? rollout.attempt : undefined;
  if (latest === undefined) return null;
  if (latest.attempt_id !== attemptId) return `attempt ${latest.attempt_id} has taken its place`;
  return latest.status === "preparing" || latest.status === "running"
    ? null
    : `the store has it as ${latest.status}`;
}
