import type { StoreApi } from "../protocol/store-api.ts";

const unfinished = new Set(["preparing", "running", "unresponsive"]);

/**
 * Ends the attempts of workers whose process is gone, as failed: nobody else will, before their limits pass. Returns how
 * many there were.
 */
export async function failAbandonedAttempts(
  store: StoreApi,
  { isOurs, reason, error }: { isOurs: (workerId: string) => boolean; reason: string; error: string },
): Promise<number> {
  const { items } = await store.queryRollouts({ status_in: ["preparing", "running"], limit: -1 });
  let ended = 0;
  for (const { rollout_id } of items) {
    const attempt = await store.getLatestAttempt(rollout_id);
    if (attempt === null || !unfinished.has(attempt.status)) continue;
    if (attempt.worker_id === null || !isOurs(attempt.worker_id)) continue;
    const metadata = { ...attempt.metadata, reason, error, worker: attempt.worker_id };
    await store.updateAttempt(rollout_id, attempt.attempt_id, { status: "failed", metadata });
    ended += 1;
  }
  return ended;
}
