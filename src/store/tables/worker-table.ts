import type { Database } from "bun:sqlite";
import type { WorkerQuery } from "../../protocol/store-api.ts";
import { contains, isOneOf, listPage } from "./query.ts";
import type { RowPage, SortNames } from "./query.ts";
import type { WorkerRow } from "./rows.ts";
import { newWorker } from "../rules/worker-rules.ts";

const columns = `worker_id, status, heartbeat_stats, last_heartbeat_time, last_dequeue_time, last_busy_time,
  last_idle_time, current_rollout_id, current_attempt_id`;

const sortNames: SortNames = {
  worker_id: { column: "worker_id", kind: "text" },
  status: { column: "status", kind: "text" },
  heartbeat_stats: { column: "heartbeat_stats", kind: "json" },
  last_heartbeat_time: { column: "last_heartbeat_time", kind: "time" },
  last_dequeue_time: { column: "last_dequeue_time", kind: "time" },
  last_busy_time: { column: "last_busy_time", kind: "time" },
  last_idle_time: { column: "last_idle_time", kind: "time" },
  current_rollout_id: { column: "current_rollout_id", kind: "text" },
  current_attempt_id: { column: "current_attempt_id", kind: "text" },
};

export class WorkerTable {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  get(workerId: string): WorkerRow | null {
    return this.#db
      .query<WorkerRow, [string]>(`SELECT ${columns} FROM workers WHERE worker_id = ?`)
      .get(workerId);
  }

  /** K-1: a worker comes into being when it is first named. */
  change(workerId: string, rule: (worker: WorkerRow) => WorkerRow): WorkerRow {
    const changed = rule(this.get(workerId) ?? newWorker(workerId));
    this.#db
      .query(
        `INSERT INTO workers (${columns}) VALUES ($worker_id, $status, $heartbeat_stats, $last_heartbeat_time,
          $last_dequeue_time, $last_busy_time, $last_idle_time, $current_rollout_id, $current_attempt_id)
          ON CONFLICT (worker_id) DO UPDATE SET status = excluded.status,
            heartbeat_stats = excluded.heartbeat_stats, last_heartbeat_time = excluded.last_heartbeat_time,
            last_dequeue_time = excluded.last_dequeue_time, last_busy_time = excluded.last_busy_time,
            last_idle_time = excluded.last_idle_time, current_rollout_id = excluded.current_rollout_id,
            current_attempt_id = excluded.current_attempt_id`,
      )
      .run({ ...changed });
    return changed;
  }

  list(query: WorkerQuery): RowPage<WorkerRow> {
    return listPage<WorkerRow>(this.#db, {
      select: columns,
      from: "workers",
      insertion: "row",
      filters: [...isOneOf("status", query.status_in), ...contains("worker_id", query.worker_id_contains)],
      logic: query.filter_logic,
      sortNames,
      paging: query,
    });
  }

  count(): number {
    return this.#db.query<{ n: number }, []>("SELECT count(*) AS n FROM workers").get()!.n;
  }
}
