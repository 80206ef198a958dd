import type { Database } from "bun:sqlite";
import { finishedStatuses } from "../protocol/enums.ts";

export type FinishedStatus = (typeof finishedStatuses)[number];

export interface PruneChoice {
  /** Any finished one when absent. */
  statuses?: readonly FinishedStatus[];
  /** Unix seconds. */
  endedBefore?: number;
  /** The finished rollouts that ended last stay, this many of them. */
  keepLast?: number;
}

export interface PrunedGroup {
  status: FinishedStatus;
  ended: string;
  rollouts: number;
  attempts: number;
  spans: number;
  /** Of inputs and span bodies as they are stored; rows and indexes come on top. */
  bytes: number;
}

const day = 86_400;

/** Each delete takes the log a few megabytes at most, and a stop in between leaves whole rollouts. */
const rolloutsAtOnce = 200;

/** Notes in this connection which rollouts are chosen. Rollouts that are not finished never are. */
export function choosePruned(db: Database, choice: PruneChoice): number {
  const { statuses = finishedStatuses, endedBefore = null, keepLast = 0 } = choice;
  db.run("CREATE TEMP TABLE IF NOT EXISTS pruned (row INTEGER PRIMARY KEY)");
  db.run("DELETE FROM temp.pruned");
  return db.run(
    `INSERT INTO temp.pruned SELECT row FROM rollouts
      WHERE status IN (SELECT value FROM json_each(?1)) AND (?2 IS NULL OR coalesce(end_time, start_time) < ?2)
        AND row NOT IN (
          SELECT row FROM rollouts WHERE status IN (SELECT value FROM json_each(?3))
            ORDER BY coalesce(end_time, start_time) DESC, row DESC LIMIT ?4)`,
    [JSON.stringify(statuses), endedBefore, JSON.stringify(finishedStatuses), keepLast],
  ).changes;
}

/** What the chosen rollouts hold, by state and age. */
export function describePruned(db: Database, now: number): PrunedGroup[] {
  return db
    .query<PrunedGroup, [number, number, number]>(
      `SELECT status, CASE WHEN age > ?2 THEN 'over 30 days ago' WHEN age > ?3 THEN '7 to 30 days ago'
          WHEN age > ${day} THEN '1 to 7 days ago' ELSE 'within a day' END AS ended,
        count(*) AS rollouts, sum(attempts) AS attempts, sum(spans) AS spans, sum(bytes) AS bytes
      FROM (
        SELECT r.status, ?1 - coalesce(r.end_time, r.start_time) AS age, count(DISTINCT a.row) AS attempts,
          count(s.row) AS spans, octet_length(r.input) + coalesce(sum(octet_length(s.body)), 0) AS bytes
        FROM temp.pruned p JOIN rollouts r ON r.row = p.row LEFT JOIN attempts a USING (rollout_id)
          LEFT JOIN spans s ON s.attempt = a.row GROUP BY p.row)
      GROUP BY 1, 2 ORDER BY 1, max(age)`,
    )
    .all(now, 30 * day, 7 * day);
}

/** Deletes the chosen rollouts with all that belongs to them. */
export function deletePruned(db: Database): void {
  const next = db.query<{ row: number; rollout_id: string }, [number]>(
    `SELECT row, rollout_id FROM rollouts WHERE row IN (SELECT row FROM temp.pruned ORDER BY row LIMIT ?)`,
  );
  for (let rollouts; (rollouts = next.all(rolloutsAtOnce)).length > 0;) {
    const rows = JSON.stringify(rollouts.map(({ row }) => row));
    const ids = JSON.stringify(rollouts.map(({ rollout_id }) => rollout_id));
    db.transaction(() => deleteRollouts(db, rows, ids)).immediate();
  }
}

function deleteRollouts(db: Database, rows: string, ids: string): void {
  const listed = "(SELECT value FROM json_each(?))";
  db.query(`DELETE FROM spans WHERE attempt IN (SELECT row FROM attempts WHERE rollout_id IN ${listed})`).run(
    ids,
  );
  for (const table of ["attempts", "queue", "sequences"]) {
    db.query(`DELETE FROM ${table} WHERE rollout_id IN ${listed}`).run(ids);
  }
  db.query(`DELETE FROM rollouts WHERE row IN ${listed}`).run(rows);
  db.query(`DELETE FROM temp.pruned WHERE row IN ${listed}`).run(rows);
}
