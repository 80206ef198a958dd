import type { Database } from "bun:sqlite";
import type { Paging, SpanQuery } from "../../protocol/store-api.ts";
import { freshId } from "../ids.ts";
import { listPage } from "./query.ts";
import type { RowPage, SortNames } from "./query.ts";
import type { AttemptRow } from "./rows.ts";

const columns =
  "rollout_id, attempt_id, sequence_id, start_time, end_time, status, worker_id, last_heartbeat_time, metadata";

const sortNames: SortNames = {
  rollout_id: { column: "rollout_id", kind: "text", always: true },
  attempt_id: { column: "attempt_id", kind: "text", always: true },
  sequence_id: { column: "sequence_id", kind: "number", always: true },
  start_time: { column: "start_time", kind: "time", always: true },
  end_time: { column: "end_time", kind: "time" },
  status: { column: "status", kind: "text", always: true },
  worker_id: { column: "worker_id", kind: "text" },
  last_heartbeat_time: { column: "last_heartbeat_time", kind: "time" },
  metadata: { column: "metadata", kind: "json" },
};

export class AttemptTable {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  newId(rolloutId: string): string {
    return freshId("at-", 4, (id) => this.get(rolloutId, id) !== null);
  }

  insert(row: AttemptRow): void {
    this.#db
      .query(
        `INSERT INTO attempts (${columns}) VALUES ($rollout_id, $attempt_id, $sequence_id, $start_time,
          $end_time, $status, $worker_id, $last_heartbeat_time, $metadata)`,
      )
      .run({ ...row });
  }

  get(rolloutId: string, attemptId: string): AttemptRow | null {
    return this.#db
      .query<AttemptRow, [string, string]>(
        `SELECT ${columns} FROM attempts WHERE rollout_id = ? AND attempt_id = ?`,
      )
      .get(rolloutId, attemptId);
  }

  bySequence(rolloutId: string, sequenceId: number): AttemptRow | null {
    return this.#db
      .query<AttemptRow, [string, number]>(
        `SELECT ${columns} FROM attempts WHERE rollout_id = ? AND sequence_id = ?`,
      )
      .get(rolloutId, sequenceId);
  }

  /** The id behind `"latest"`. Without any attempt the page is empty: none has that id. */
  withLatest(query: SpanQuery): SpanQuery {
    const latest = query.attempt_id === "latest" ? this.latest(query.rollout_id) : null;
    return latest === null ? query : { ...query, attempt_id: latest.attempt_id };
  }

  /** S-7: the one with the highest number, whatever its status. */
  latest(rolloutId: string): AttemptRow | null {
    return this.#db
      .query<AttemptRow, [string]>(
        `SELECT ${columns} FROM attempts WHERE rollout_id = ? ORDER BY sequence_id DESC LIMIT 1`,
      )
      .get(rolloutId);
  }

  save(row: AttemptRow): void {
    this.#db
      .query(
        `UPDATE attempts SET end_time = $end_time, status = $status, worker_id = $worker_id,
          last_heartbeat_time = $last_heartbeat_time, metadata = $metadata
          WHERE rollout_id = $rollout_id AND attempt_id = $attempt_id`,
      )
      .run({
        end_time: row.end_time,
        status: row.status,
        worker_id: row.worker_id,
        last_heartbeat_time: row.last_heartbeat_time,
        metadata: row.metadata,
        rollout_id: row.rollout_id,
        attempt_id: row.attempt_id,
      });
  }

  list(rolloutId: string, paging: Paging): RowPage<AttemptRow> {
    return listPage<AttemptRow>(this.#db, {
      select: columns,
      from: "attempts",
      insertion: "row",
      scope: [{ sql: "rollout_id = ?", values: [rolloutId] }],
      filters: [],
      sortNames,
      paging: { ...paging, sort_by: paging.sort_by === undefined ? "sequence_id" : paging.sort_by },
    });
  }
}
