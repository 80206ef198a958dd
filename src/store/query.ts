import type { Database, SQLQueryBindings } from "bun:sqlite";
import { StoreRequestError } from "../errors.ts";
import type { Paging } from "../protocol/store-api.ts";

export interface Condition {
  sql: string;
  values: SQLQueryBindings[];
}

/** Q-10 decides by kind where nulls go; a `json` member has no order. */
export type SortKind = "text" | "number" | "time" | "json";

/** Wire name → column and kind, in the order of the wire's members. */
export type SortNames = { [name: string]: { column: string; kind: SortKind; unlisted?: true } };

export interface Listing {
  /** Columns, for example `r.*`. */
  select: string;
  from: string;
  /** Insertion order: breaks ties in both directions. */
  insertion: string;
  /** always required, whatever `filter_logic` says. */
  scope?: Condition[];
  filters: Condition[];
  logic?: "and" | "or";
  sortNames: SortNames;
  paging: Paging;
}

export interface RowPage<Row> {
  rows: Row[];
  limit: number;
  offset: number;
  total: number;
}

/** Filters, sorts and cuts out one page (section 6 of the protocol). */
export function listPage<Row>(db: Database, listing: Listing): RowPage<Row> {
  const { limit, offset } = requirePage(listing.paging);
  const order = orderBy(listing);
  const where = whereClause(listing);
  const rows = db
    .query<Row, SQLQueryBindings[]>(
      `SELECT ${listing.select} FROM ${listing.from}${where.sql} ORDER BY ${order} LIMIT ? OFFSET ?`,
    )
    .all(...where.values, limit, offset);
  if (limit === -1 && offset === 0) return { rows, limit, offset, total: rows.length };
  const total = db
    .query<{ n: number }, SQLQueryBindings[]>(`SELECT count(*) AS n FROM ${listing.from}${where.sql}`)
    .get(...where.values)!.n;
  return { rows, limit, offset, total };
}

/** */
function requirePage(paging: Paging): { limit: number; offset: number } {
  const { limit = -1, offset = 0 } = paging;
  if (limit === 0 || limit < -1) {
    throw new StoreRequestError(400, "Limit must be greater than 0 or -1 for no limit");
  }
  if (offset < 0) throw new StoreRequestError(400, "Offset must be greater than or equal to 0");
  return { limit, offset };
}

export function equals(column: string, value: string | null | undefined): Condition[] {
  return value === null || value === undefined ? [] : [{ sql: `${column} = ?`, values: [value] }];
}

/** Case-sensitive; the empty string is part of every value that is not null. */
export function contains(column: string, value: string | null | undefined): Condition[] {
  return value === null || value === undefined ? [] : [{ sql: `instr(${column}, ?) > 0`, values: [value] }];
}

/** An empty list matches nothing (E-8). */
export function isOneOf(column: string, values: readonly string[] | null | undefined): Condition[] {
  if (values === null || values === undefined) return [];
  return [{ sql: `${column} IN (SELECT value FROM json_each(?))`, values: [JSON.stringify(values)] }];
}

function whereClause(listing: Listing): Condition {
  const parts = (listing.scope ?? []).map(({ sql }) => sql);
  if (listing.filters.length > 0) {
    const joint = listing.logic === "or" ? " OR " : " AND ";
    parts.push(`(${listing.filters.map(({ sql }) => sql).join(joint)})`);
  }
  const values = [...(listing.scope ?? []), ...listing.filters].flatMap((condition) => condition.values);
  return { sql: parts.length === 0 ? "" : ` WHERE ${parts.join(" AND ")}`, values };
}

function orderBy({ sortNames, paging, insertion }: Listing): string {
  const name = paging.sort_by;
  if (name === null || name === undefined) return insertion;
  const sort = Object.hasOwn(sortNames, name) ? sortNames[name] : undefined;
  if (sort === undefined) throw unknownSort(name, sortNames);
  if (sort.kind === "json") {
    throw new StoreRequestError(400, `Cannot sort by ${name}: its values have no order`);
  }
  return `${withoutNull(sort.column, sort.kind)} ${paging.sort_order === "desc" ? "DESC" : "ASC"}, ${insertion}`;
}

function withoutNull(column: string, kind: Exclude<SortKind, "json">): string {
  const replacement = { text: "''", number: "0", time: "9e999" }[kind];
  return `coalesce(${column}, ${replacement})`;
}

function unknownSort(name: string, sortNames: SortNames): StoreRequestError {
  const allowed = Object.keys(sortNames).filter((key) => sortNames[key]!.unlisted !== true);
  return new StoreRequestError(400, `Invalid sort_by: ${name}, allowed fields are: ${allowed.join(", ")}`);
}
