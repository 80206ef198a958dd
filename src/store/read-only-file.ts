import { Database, constants } from "bun:sqlite";
import { existsSync, statSync } from "node:fs";
import { AglError, messageOf } from "../errors.ts";
import { requireReadableFile } from "./schema.ts";

/** A connection to a store's file that changes nothing, also while the store's process lives. */
export function openReadOnlyFile(path: string): Database {
  if (!existsSync(path)) {
    throw new AglError("store", `there is no store file ${path}`, {
      remedy: "name the store file of a run, for example runs/2026-11-29-1/store.db",
    });
  }
  try {
    const db = openDatabase(path);
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
function openDatabase(path: string): Database {
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
