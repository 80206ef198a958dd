import { Database } from "bun:sqlite";
import { randomBytes } from "node:crypto";
import { mkdirSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { AglError, messageOf } from "../errors.ts";
import type { Logger } from "../log.ts";
import { copyBeforeMigration } from "./file-copy.ts";
import { abandonFile, claimFile } from "./holder.ts";
import { markAsStore, migrate, requireKnownFile, schemaVersion, versionOf } from "./schema.ts";

/** A connection to the file, claimed for this process, checked and brought to the current schema. */
export function openStoreFile(path: string, log: Logger): { db: Database; storeId: string } {
  const db = openDatabase(path);
  try {
    return { db, storeId: prepareFile(db, path, log) };
  } catch (error) {
    db.close();
    throw asOpenError(error, path);
  }
}

function openDatabase(path: string): Database {
  // All statements of the store stay prepared; Bun keeps 20 unless told otherwise.
  Database.MAX_QUERY_CACHE_SIZE = 500;
  try {
    if (path !== ":memory:") mkdirSync(dirname(path), { recursive: true });
    return new Database(path, { create: true, strict: true });
  } catch (error) {
    throw asOpenError(error, path);
  }
}

function prepareFile(db: Database, path: string, log: Logger): string {
  db.run("PRAGMA busy_timeout = 5000");
  requireKnownFile(db, path);
  markAsStore(db);
  const { uncleanStop } = claimFile(db, path);
  try {
    db.run("PRAGMA journal_mode = WAL");
    // Commits are synced by the write queue, beside this thread; SQLite syncs what checkpoints need.
    db.run("PRAGMA synchronous = NORMAL");
    if (uncleanStop) checkIntegrity(db, path, log);
    bringUpToDate(db, path, log);
    return db.query<{ store_id: string }, []>("SELECT store_id FROM store").get()!.store_id;
  } catch (error) {
    abandonFile(db, uncleanStop);
    throw error;
  }
}

/** A file that holds something already is copied first; the copy stays. */
function bringUpToDate(db: Database, path: string, log: Logger): void {
  const version = versionOf(db);
  const isOld = version > 0 && version < schemaVersion;
  const copy = isOld ? copyBeforeMigration(db, path, { version }) : undefined;
  if (isOld) log.warning("the store is brought up to date", { from: version, to: schemaVersion, copy });
  try {
    migrate(db, `st-${randomBytes(8).toString("hex")}`);
  } catch (error) {
    if (copy !== undefined) rmSync(copy, { force: true });
    throw error;
  }
}

function checkIntegrity(db: Database, path: string, log: Logger): void {
  log.warning("the store was not closed cleanly: checking its file", { path });
  const findings = db.query<{ quick_check: string }, []>("PRAGMA quick_check").all();
  if (findings.length === 1 && findings[0]?.quick_check === "ok") return;
  throw damaged(path, findings[0]?.quick_check ?? "unreadable");
}

function damaged(path: string, finding: string): AglError {
  return new AglError("store", `${path} is damaged: ${finding}`, {
    remedy: `salvage it with: sqlite3 ${path} .recover`,
  });
}

function asOpenError(error: unknown, path: string): unknown {
  if (error instanceof AglError || !(error instanceof Error)) return error;
  if ((error as { code?: unknown }).code === "SQLITE_CORRUPT") return damaged(path, error.message);
  return new AglError("store", `cannot open the store file ${path}: ${messageOf(error)}`, {
    remedy: "check the path, its permissions and the free space, or choose another store file",
    cause: error,
  });
}
