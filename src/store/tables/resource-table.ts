import type { Database } from "bun:sqlite";
import type { ResourcesQuery } from "../../protocol/store-api.ts";
import { freshId } from "../ids.ts";
import { contains, equals, listPage } from "./query.ts";
import type { RowPage, SortNames } from "./query.ts";
import type { ResourcesRow } from "./rows.ts";

const columns = "resources_id, create_time, update_time, version, resources";

const sortNames: SortNames = {
  resources_id: { column: "resources_id", kind: "text" },
  create_time: { column: "create_time", kind: "time" },
  update_time: { column: "update_time", kind: "time" },
  version: { column: "version", kind: "number" },
  resources: { column: "resources", kind: "json" },
};

export class ResourceTable {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  newId(): string {
    return freshId("rs-", 6, (id) => this.get(id) !== null);
  }

  /** G-1, G-2: makes the snapshot version 1, or replaces its content and counts up; either way it is the latest. */
  write(resourcesId: string, resources: string, now: number): ResourcesRow {
    return this.#db
      .query<ResourcesRow, [string, number, number, string]>(
        `INSERT INTO resources (resources_id, create_time, update_time, version, resources, written)
          VALUES (?, ?, ?, 1, ?, (SELECT coalesce(max(written), 0) + 1 FROM resources))
          ON CONFLICT (resources_id) DO UPDATE SET update_time = excluded.update_time, version = version + 1,
            resources = excluded.resources, written = excluded.written
          RETURNING ${columns}`,
      )
      .get(resourcesId, now, now, resources)!;
  }

  /** A snapshot as another store had it. Which one is the latest is settled by `rankByUpdate`. */
  insert(row: ResourcesRow): void {
    this.#db
      .query(
        `INSERT INTO resources (${columns}, written)
          VALUES ($resources_id, $create_time, $update_time, $version, $resources, 0)`,
      )
      .run({ ...row });
  }

  /** Makes the one that was written last, wherever that was, the latest. */
  rankByUpdate(): void {
    this.#db.run(
      `UPDATE resources SET written = ranked.rank FROM
        (SELECT row, row_number() OVER (ORDER BY update_time, written, row) AS rank FROM resources) AS ranked
        WHERE ranked.row = resources.row`,
    );
  }

  get(resourcesId: string): ResourcesRow | null {
    return this.#db
      .query<ResourcesRow, [string]>(`SELECT ${columns} FROM resources WHERE resources_id = ?`)
      .get(resourcesId);
  }

  latest(): ResourcesRow | null {
    return this.#db
      .query<ResourcesRow, []>(`SELECT ${columns} FROM resources ORDER BY written DESC LIMIT 1`)
      .get();
  }

  list(query: ResourcesQuery): RowPage<ResourcesRow> {
    return listPage<ResourcesRow>(this.#db, {
      select: columns,
      from: "resources",
      insertion: "row",
      filters: [
        ...equals("resources_id", query.resources_id),
        ...contains("resources_id", query.resources_id_contains),
      ],
      sortNames,
      paging: query,
    });
  }

  count(): number {
    return this.#db.query<{ n: number }, []>("SELECT count(*) AS n FROM resources").get()!.n;
  }
}
