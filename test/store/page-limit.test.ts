import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { StoreRequestError } from "../../src/errors.ts";
import type { Paging } from "../../src/protocol/store-api.ts";
import { listPage } from "../../src/store/tables/query.ts";

const db = new Database(":memory:");
db.run("CREATE TABLE things (row INTEGER PRIMARY KEY, name TEXT)");
for (let index = 0; index < 10; index++) db.run("INSERT INTO things (name) VALUES (?)", [`thing-${index}`]);

function page(paging: Paging, mostRows: number) {
  const sortNames = { name: { column: "name", kind: "text" as const } };
  return listPage(db, {
    select: "*",
    from: "things",
    insertion: "row",
    filters: [],
    sortNames,
    paging,
    mostRows,
  });
}

test.each([
  [{}, 10],
  [{ limit: 4, offset: 2 }, 4],
  [{ limit: 1_000_000_000 }, 10],
  [{ offset: 7 }, 3],
])("a page within the limit is given out: %j", (paging, rows) => {
  expect(page(paging, 10).rows).toHaveLength(rows);
});

test.each([{}, { limit: -1 }, { limit: 5 }, { limit: 1_000_000_000, offset: 5 }, { sort_by: "name" }])(
  "one that would not fit into memory is refused with the way around it, and not cut short: %j",
  (paging) => {
    expect(() => page(paging, 4)).toThrow(StoreRequestError);
    expect(() => page(paging, 4)).toThrow("A page may hold 4 items, and there are more: ask for parts of it");
  },
);
