import type { Database } from "bun:sqlite";
import { isQueuing } from "../../protocol/enums.ts";
import type { RolloutStatus } from "../../protocol/enums.ts";
import type { RolloutQuery } from "../../protocol/store-api.ts";
import { freshId } from "../ids.ts";
import type { RolloutState } from "../rules/lifecycle.ts";
import { PagePlaces } from "./page-places.ts";
import { contains, isOneOf, listPage } from "./query.ts";
import type { RowPage, SortNames } from "./query.ts";
import type { AttemptRow, RolloutRow } from "./rows.ts";
import { TotalsTable } from "./totals-table.ts";

const columns =
  "rollout_id, input, start_time, end_time, mode, resources_id, status, config, metadata, attempt_count";

/** Q-7, and the names that upstream's dashboard asks for (C-5). */
const sortNames: SortNames = {
  rollout_id: { column: "r.rollout_id", kind: "text", always: true },
  input: { column: "r.input", kind: "json" },
  start_time: { column: "r.start_time", kind: "time", always: true },
  end_time: { column: "r.end_time", kind: "time" },
  mode: { column: "r.mode", kind: "text" },
  resources_id: { column: "r.resources_id", kind: "text" },
  status: { column: "r.status", kind: "text", always: true },
  config: { column: "r.config", kind: "json" },
  metadata: { column: "r.metadata", kind: "json" },
  attempt_id: { column: "a.attempt_id", kind: "text", unlisted: true },
  worker_id: { column: "a.worker_id", kind: "text", unlisted: true },
  last_heartbeat_time: { column: "a.last_heartbeat_time", kind: "time", unlisted: true },
  duration: { column: "(r.end_time - r.start_time)", kind: "number", unlisted: true },
};

/** A rollout's row beside its latest attempt's, whose members carry the prefix `a_`. */
type JoinedRow = RolloutRow & { [Key in keyof AttemptRow as `a_${Key}`]: AttemptRow[Key] | null };

const withLatestAttempt = {
  select: `r.*, a.rollout_id AS a_rollout_id, a.attempt_id AS a_attempt_id, a.sequence_id AS a_sequence_id,
    a.start_time AS a_start_time, a.end_time AS a_end_time, a.status AS a_status, a.worker_id AS a_worker_id,
    a.last_heartbeat_time AS a_last_heartbeat_time, a.metadata AS a_metadata`,
  from: `rollouts r LEFT JOIN attempts a ON a.rollout_id = r.rollout_id AND a.sequence_id = r.attempt_count`,
};

export interface RolloutWithLatest {
  rollout: RolloutRow;
  latest: AttemptRow | null;
}

/** A rollout's status was written. */
export interface StatusChange {
  rolloutId: string;
  status: RolloutStatus;
}

/** The rollouts and the queue of those that wait for a runner. */
export class RolloutTable {
  readonly #db: Database;
  readonly #journal: StatusChange[];
  readonly #totals: TotalsTable;
  readonly #places: PagePlaces;

  /** Every status that is written is noted in the journal. */
  constructor(db: Database, journal: StatusChange[]) {
    this.#db = db;
    this.#journal = journal;
    this.#totals = new TotalsTable(db);
    this.#places = new PagePlaces(db);
  }

  newId(): string {
    return freshId("ro-", 6, (id) => this.get(id) !== null);
  }

  insert(row: RolloutRow): void {
    this.#db
      .query(
        `INSERT INTO rollouts (${columns}) VALUES ($rollout_id, $input, $start_time, $end_time, $mode,
          $resources_id, $status, $config, $metadata, $attempt_count)`,
      )
      .run({ ...row });
    this.#onStatus(row.rollout_id, row.status);
  }

  get(rolloutId: string): RolloutRow | null {
    return this.#db
      .query<RolloutRow, [string]>(`SELECT ${columns} FROM rollouts WHERE rollout_id = ?`)
      .get(rolloutId);
  }

  getWithLatest(rolloutId: string): RolloutWithLatest | null {
    const row = this.#db
      .query<JoinedRow, [string]>(
        `SELECT ${withLatestAttempt.select} FROM ${withLatestAttempt.from} WHERE r.rollout_id = ?`,
      )
      .get(rolloutId);
    return row === null ? null : split(row);
  }

  getMany(rolloutIds: readonly string[]): RolloutRow[] {
    return this.#db
      .query<RolloutRow, [string]>(
        `SELECT ${columns} FROM rollouts WHERE rollout_id IN (SELECT value FROM json_each(?))`,
      )
      .all(JSON.stringify(rolloutIds));
  }

  /** For those who wait for many: without what the rollouts hold. */
  statusesOf(rolloutIds: readonly string[]): Map<string, RolloutStatus> {
    const rows = this.#db
      .query<Pick<RolloutRow, "rollout_id" | "status">, [string]>(
        "SELECT rollout_id, status FROM rollouts WHERE rollout_id IN (SELECT value FROM json_each(?))",
      )
      .all(JSON.stringify(rolloutIds));
    return new Map(rows.map(({ rollout_id: rolloutId, status }) => [rolloutId, status]));
  }

  list(query: RolloutQuery): RowPage<RolloutWithLatest> {
    const page = listPage<JoinedRow>(this.#db, {
      ...withLatestAttempt,
      countFrom: "rollouts r",
      insertion: "r.row",
      filters: [
        ...isOneOf("r.status", query.status_in),
        ...isOneOf("r.rollout_id", query.rollout_id_in),
        ...contains("r.rollout_id", query.rollout_id_contains),
        ...isOneOf("r.mode", query.mode_in),
      ],
      logic: query.filter_logic,
      sortNames,
      paging: query,
      total: this.#knownTotal(query),
      places: this.#places,
    });
    return { ...page, rows: page.rows.map(split) };
  }

  /** H-3: the only rollouts a health scan looks at. */
  listActive(): RolloutWithLatest[] {
    return this.#db
      .query<JoinedRow, []>(
        `SELECT ${withLatestAttempt.select} FROM ${withLatestAttempt.from}
          WHERE r.status IN ('preparing', 'running') AND a.attempt_id IS NOT NULL
            AND (r.config ->> 'timeout_seconds' IS NOT NULL OR r.config ->> 'unresponsive_seconds' IS NOT NULL)
          ORDER BY r.row`,
      )
      .all()
      .map(split);
  }

  /** S-4: a rollout that enters the queuing group joins the tail unless it is queued already. */
  setState(rolloutId: string, state: RolloutState): void {
    this.#db
      .query("UPDATE rollouts SET status = ?, end_time = ? WHERE rollout_id = ?")
      .run(state.status, state.end_time, rolloutId);
    this.#onStatus(rolloutId, state.status);
  }

  setContent(row: RolloutRow): void {
    this.#db
      .query(
        `UPDATE rollouts SET input = $input, mode = $mode, resources_id = $resources_id, config = $config,
          metadata = $metadata WHERE rollout_id = $rollout_id`,
      )
      .run({
        input: row.input,
        mode: row.mode,
        resources_id: row.resources_id,
        config: row.config,
        metadata: row.metadata,
        rollout_id: row.rollout_id,
      });
  }

  setAttemptCount(rolloutId: string, count: number): void {
    this.#db.query("UPDATE rollouts SET attempt_count = ? WHERE rollout_id = ?").run(count, rolloutId);
  }

  /** S-3: takes the head of the queue; entries that left the queuing group meanwhile are discarded. */
  takeQueued(): RolloutRow | null {
    for (;;) {
      const head = this.#db
        .query<{ position: number; rollout_id: string }, []>(
          "SELECT position, rollout_id FROM queue ORDER BY position LIMIT 1",
        )
        .get();
      if (head === null) return null;
      this.#db.query("DELETE FROM queue WHERE position = ?").run(head.position);
      const rollout = this.get(head.rollout_id);
      if (rollout !== null && isQueuing(rollout.status)) return rollout;
    }
  }

  /** Undefined when it depends on more than the status. */
  #knownTotal({ rollout_id_in, rollout_id_contains, mode_in, status_in }: RolloutQuery): number | undefined {
    const others = [rollout_id_in, rollout_id_contains, mode_in];
    const onlyByStatus = others.every((filter) => filter === null || filter === undefined);
    return onlyByStatus ? this.#totals.rollouts(status_in) : undefined;
  }

  #onStatus(rolloutId: string, status: RolloutStatus): void {
    this.#journal.push({ rolloutId, status });
    if (isQueuing(status))
      this.#db.query("INSERT OR IGNORE INTO queue (rollout_id) VALUES (?)").run(rolloutId);
  }
}

function split(row: JoinedRow): RolloutWithLatest {
  if (row.a_attempt_id === null) return { rollout: row, latest: null };
  const latest = {
    rollout_id: row.a_rollout_id,
    attempt_id: row.a_attempt_id,
    sequence_id: row.a_sequence_id,
    start_time: row.a_start_time,
    end_time: row.a_end_time,
    status: row.a_status,
    worker_id: row.a_worker_id,
    last_heartbeat_time: row.a_last_heartbeat_time,
    metadata: row.a_metadata,
  } as AttemptRow;
  return { rollout: row, latest };
}
