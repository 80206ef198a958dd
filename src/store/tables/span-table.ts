import type { Database } from "bun:sqlite";
import { stringifyJson } from "../../protocol/json.ts";
import type { SpanQuery } from "../../protocol/store-api.ts";
import type { Span } from "../../protocol/types.ts";
import { PagePlaces } from "./page-places.ts";
import { contains, equals, listPage } from "./query.ts";
import type { Condition, RowPage, SortNames } from "./query.ts";
import { packBody, unpackBody } from "./span-body.ts";

/** Q-7, and the names that upstream's dashboard asks for (C-5). */
const sortNames: SortNames = {
  // Of one rollout alone, as every listing is.
  rollout_id: { column: "''", kind: "text", always: true },
  attempt_id: {
    column: "(SELECT attempt_id FROM attempts WHERE attempts.row = spans.attempt)",
    kind: "text",
    always: true,
  },
  sequence_id: { column: "sequence_id", kind: "number", always: true },
  trace_id: { column: "trace_id", kind: "text", always: true },
  span_id: { column: "span_id", kind: "text", always: true },
  parent_id: { column: "parent_id", kind: "text" },
  name: { column: "name", kind: "text", always: true },
  status: { column: "body", kind: "json" },
  attributes: { column: "body", kind: "json" },
  events: { column: "body", kind: "json" },
  links: { column: "body", kind: "json" },
  start_time: { column: "start_time", kind: "time" },
  end_time: { column: "end_time", kind: "time" },
  context: { column: "body", kind: "json" },
  parent: { column: "body", kind: "json" },
  resource: { column: "body", kind: "json" },
  status_code: { column: "status_code", kind: "text", unlisted: true },
  duration: { column: "(end_time - start_time)", kind: "number", unlisted: true },
};

/** The spans, and each rollout's counter of sequence numbers. */
export class SpanTable {
  readonly #db: Database;
  readonly #places: PagePlaces;

  constructor(db: Database) {
    this.#db = db;
    this.#places = new PagePlaces(db);
  }

  /** P-2, P-3: false when a span with the same key is already stored. Its attempt must be there. */
  insert(span: Span): boolean {
    const result = this.#db
      .query(
        `INSERT INTO spans (attempt, span_id, sequence_id, trace_id, parent_id, name, status_code, start_time,
          end_time, body)
          VALUES ((SELECT row FROM attempts WHERE rollout_id = ? AND attempt_id = ?), ?, ?, ?, ?, ?, ?, ?, ?, ?)
          ON CONFLICT (attempt, span_id) DO NOTHING`,
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
        packBody(stringifyJson(span)),
      );
    return result.changes > 0;
  }

  /** The caller has resolved `"latest"`. */
  list(query: SpanQuery): RowPage<{ json: string }> {
    const page = listPage<{ body: Uint8Array }>(this.#db, {
      select: "body",
      from: "spans",
      insertion: "row",
      scope: [this.#ofAttempts(query)],
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
      places: this.#places,
    });
    return { ...page, rows: page.rows.map(({ body }) => ({ json: unpackBody(body) })) };
  }

  /** One attempt is written as an equation: only then does the index give its spans in order, without a sort. */
  #ofAttempts({ rollout_id, attempt_id = null }: SpanQuery): Condition {
    const rows = this.#db
      .query<{ row: number }, [string, string | null]>(
        "SELECT row FROM attempts WHERE rollout_id = ?1 AND attempt_id = coalesce(?2, attempt_id)",
      )
      .all(rollout_id, attempt_id)
      .map(({ row }) => row);
    if (rows.length === 1) return { sql: "attempt = ?", values: rows };
    return { sql: "attempt IN (SELECT value FROM json_each(?))", values: [JSON.stringify(rows)] };
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
}
