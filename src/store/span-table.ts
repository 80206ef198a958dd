import type { Database } from "bun:sqlite";
import { stringifyJson } from "../protocol/json.ts";
import type { SpanQuery } from "../protocol/store-api.ts";
import type { Span } from "../protocol/types.ts";
import { contains, equals, listPage } from "./query.ts";
import type { RowPage, SortNames } from "./query.ts";

/** Q-7, and the names that upstream's dashboard asks for (C-5). */
const sortNames: SortNames = {
  rollout_id: { column: "rollout_id", kind: "text" },
  attempt_id: { column: "attempt_id", kind: "text" },
  sequence_id: { column: "sequence_id", kind: "number" },
  trace_id: { column: "trace_id", kind: "text" },
  span_id: { column: "span_id", kind: "text" },
  parent_id: { column: "parent_id", kind: "text" },
  name: { column: "name", kind: "text" },
  status: { column: "json", kind: "json" },
  attributes: { column: "json", kind: "json" },
  events: { column: "json", kind: "json" },
  links: { column: "json", kind: "json" },
  start_time: { column: "start_time", kind: "time" },
  end_time: { column: "end_time", kind: "time" },
  context: { column: "json", kind: "json" },
  parent: { column: "json", kind: "json" },
  resource: { column: "json", kind: "json" },
  status_code: { column: "status_code", kind: "text", unlisted: true },
  duration: { column: "(end_time - start_time)", kind: "number", unlisted: true },
};

/** The spans, and each rollout's counter of sequence numbers. */
export class SpanTable {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  /** P-2, P-3: false when a span with the same key is already stored. */
  insert(span: Span): boolean {
    const result = this.#db
      .query(
        `INSERT INTO spans (rollout_id, attempt_id, span_id, sequence_id, trace_id, parent_id, name,
          status_code, start_time, end_time, json) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
          ON CONFLICT (rollout_id, attempt_id, span_id) DO NOTHING`,
      )
      .run(
        span.rollout_id,
        span.attempt_id,
        span.span_id,
        span.sequence_id,
        span.trace_id,
        span.parent_id,
        span.name,
        span.status.status_code,
        span.start_time,
        span.end_time,
        stringifyJson(span),
      );
    return result.changes > 0;
  }

  /** The caller has resolved `"latest"`. */
  list(query: SpanQuery): RowPage<{ json: string }> {
    return listPage<{ json: string }>(this.#db, {
      select: "json",
      from: "spans",
      insertion: "row",
      scope: [...equals("rollout_id", query.rollout_id), ...equals("attempt_id", query.attempt_id)],
      filters: [
        ...equals("trace_id", query.trace_id),
        ...contains("trace_id", query.trace_id_contains),
        ...equals("span_id", query.span_id),
        ...contains("span_id", query.span_id_contains),
        ...equals("parent_id", query.parent_id),
        ...contains("parent_id", query.parent_id_contains),
        ...equals("name", query.name),
        ...contains("name", query.name_contains),
      ],
      logic: query.filter_logic,
      sortNames,
      paging: { ...query, sort_by: query.sort_by === undefined ? "sequence_id" : query.sort_by },
    });
  }

  /** N-1: from 1, for any rollout id. */
  nextSequence(rolloutId: string): number {
    return this.#db
      .query<{ last: number }, [string]>(
        `INSERT INTO sequences (rollout_id, last) VALUES (?, 1)
          ON CONFLICT (rollout_id) DO UPDATE SET last = last + 1 RETURNING last`,
      )
      .get(rolloutId)!.last;
  }

  /** N-2: the counter never hands out a number at or below one that was given explicitly. */
  raiseSequence(rolloutId: string, sequenceId: number): void {
    this.#db
      .query(
        `INSERT INTO sequences (rollout_id, last) VALUES (?, max(0, ?))
          ON CONFLICT (rollout_id) DO UPDATE SET last = excluded.last WHERE excluded.last > last`,
      )
      .run(rolloutId, sequenceId);
  }

  count(): number {
    return this.#db.query<{ n: number }, []>("SELECT count(*) AS n FROM spans").get()!.n;
  }
}
