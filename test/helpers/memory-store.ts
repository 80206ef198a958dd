import { afterEach } from "bun:test";
import { openStore } from "../../src/store/sqlite-store.ts";
import type { OpenStoreOptions, SqliteStore } from "../../src/store/sqlite-store.ts";

const open: SqliteStore[] = [];

afterEach(async () => {
  for (const store of open.splice(0)) await store.close();
});

/** A store in memory that scans at every call, as upstream's own tests run it; closed after the test. */
export function memoryStore(options: Partial<OpenStoreOptions> = {}): SqliteStore {
  const store = openStore({ path: ":memory:", scanDebounceSeconds: 0, ...options });
  open.push(store);
  return store;
}
