import { isFinished } from "../protocol/enums.ts";
import type { EndedRollout } from "./observer.ts";
import type { RolloutTable, StatusChange } from "./tables/rollout-table.ts";

/** The rollouts that changes have ended. */
export function endedRollouts(table: RolloutTable, changes: readonly StatusChange[]): EndedRollout[] {
  const ended = changes.filter(({ status }) => isFinished(status));
  if (ended.length === 0) return [];
  const found = table.getMany(ended.map(({ rolloutId }) => rolloutId));
  const rows = new Map(found.map((row) => [row.rollout_id, row]));
  return ended.flatMap(({ rolloutId, status }) => {
    const row = rows.get(rolloutId);
    if (row === undefined || row.end_time === null) return [];
    return [{ status, mode: row.mode, seconds: row.end_time - row.start_time }];
  });
}
