import { Database, constants } from "bun:sqlite";
import { existsSync, statSync } from "node:fs";
import { AglError, messageOf } from "../errors.ts";
import type { Paging, RolloutQuery, SpanQuery, StoreApi } from "../protocol/store-api.ts";
import type { Attempt, AttemptedRollout, Page, Rollout, Span } from "../protocol/types.ts";
import { pageOf } from "./tables/query.ts";
import { attemptedRolloutOf, attemptOf, spanOf } from "./tables/rows.ts";
import { requireReadableFile } from "./file/schema.ts";
import { openTables } from "./tables/tables.ts";
import type { Tables } from "./tables/tables.ts";

/** What can be asked of a store without changing it. */
export type StoreReading = Pick<StoreApi, "queryRollouts" | "getRollout" | "queryAttempts" | "querySpans">;

/**
 * Opens a store's file to read it, also while its process lives: nothing is claimed, scanned or written, and no
 * transaction outlasts a call.
 */
export function openStoreReader(path: string): StoreReader {
  return new StoreReader(openFileToRead(path));
}

/** A connection that cannot write, to a complete store of this version. */
export function openFileToRead(path: string): Database {
  if (!existsSync(path)) {
    throw new AglError("store", `there is no store file ${path}`, {
      remedy: "name the store file of a run, for example runs/2026-11-29-1/store.db",
    });
  }
  try {
    const db = openReadOnly(path);
    try {
      db.run("PRAGMA busy_timeout = 5000");
      requireReadableFile(db, path);
      return db;
    } catch (error) {
      db.close();
      throw error;
    }
  } catch (error) {
    if (error instanceof AglError) throw error;
    throw new AglError("store", `cannot read the store file ${path}: ${messageOf(error)}`, {
      remedy: "check the path and its permissions",
      cause: error,
    });
  }
}

/** In a folder that cannot be written, SQLite cannot make its index of the log; without a log it needs none. */
function openReadOnly(path: string): Database {
  const db = new Database(path, { readonly: true, strict: true });
  try {
    db.query("SELECT 1 FROM sqlite_schema LIMIT 1").get();
    return db;
  } catch (error) {
    db.close();
    if (!/^SQLITE_(?:CANTOPEN|READONLY)/.test(String((error as { code?: unknown }).code)) || hasLog(path))
      throw error;
    const flags = constants.SQLITE_OPEN_READONLY | constants.SQLITE_OPEN_URI;
    return new Database(`file:${encodeURI(path).replace(/[?#]/g, encodeURIComponent)}?immutable=1`, flags);
  }
}

function hasLog(path: string): boolean {
  return (statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0;
}

export class StoreReader implements StoreReading {
  readonly #db: Database;
  protected readonly tables: Tables;

  constructor(db: Database) {
    this.#db = db;
    this.tables = openTables(db, []);
  }

  async queryRollouts(query: RolloutQuery): Promise<Page<Rollout | AttemptedRollout>> {
    return pageOf(this.tables.rollouts.list(query), ({ rollout, latest }) =>
      attemptedRolloutOf(rollout, latest),
    );
  }

  async getRollout(rolloutId: string): Promise<Rollout | AttemptedRollout | null> {
    const found = this.tables.rollouts.getWithLatest(rolloutId);
    return found === null ? null : attemptedRolloutOf(found.rollout, found.latest);
  }

  async queryAttempts(rolloutId: string, paging: Paging = {}): Promise<Page<Attempt>> {
    return pageOf(this.tables.attempts.list(rolloutId, paging), attemptOf);
  }

  async querySpans(query: SpanQuery): Promise<Page<Span>> {
    return pageOf(this.tables.spans.list(this.tables.attempts.withLatest(query)), ({ json }) => spanOf(json));
  }

  async close(): Promise<void> {
    this.#db.close();
  }
}
