import { Database } from "bun:sqlite";
import { randomBytes } from "node:crypto";
import { mkdirSync, rmSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { AglError, messageOf } from "../../errors.ts";
import type { Logger } from "../../log.ts";
import { checkFile, damaged } from "./file-check.ts";
import { copyBeforeMigration } from "./file-copy.ts";
import { bytesInUse, freeBytesBeside } from "./file-space.ts";
import { abandonFile, claimFile, releaseFile } from "./holder.ts";
import { markAsStore, migrate, requireKnownFile, schemaVersion, versionOf } from "./schema.ts";

/**
 * `quick_check` reads the whole file: 1 s of CPU for each GB (2.8 GB with 3,000,000 spans: 2.7 s, `integrity_check` 5.4
 * s). After a process was killed the kernel still has every byte it wrote, so of a larger file the spans, nearly all of
 * it, are left out then; after the machine itself stopped, nothing is.
 */
const wholeCheckBytes = 500_000_000;

/** SQLite's own 2 MB hold the indexes of some ten thousand spans; beyond, a write cost a sixth more processor time. */
const cacheKilobytes = 64 * 1024;

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

/** Releases the file. On a full disk that cannot be written down, so that the next opening checks the file. */
export function closeStoreFile(db: Database, log: Logger): void {
  try {
    releaseFile(db);
    // Whoever still reads the file is not waited for: the log stays beside it until the next start.
    db.run("PRAGMA busy_timeout = 0");
    db.run("PRAGMA wal_checkpoint(TRUNCATE)");
  } catch (error) {
    log.warning("the store's file could not be released", { error: messageOf(error) });
  }
  db.close();
}

function openDatabase(path: string): Database {
  // All statements of the store stay prepared; Bun keeps 20 unless told otherwise.
  Database.MAX_QUERY_CACHE_SIZE = 500;
  try {
    if (path !== ":memory:") {
      if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) throw new Error("it is a folder");
      mkdirSync(dirname(path), { recursive: true });
    }
    return new Database(path, { create: true, strict: true });
  } catch (error) {
    throw asOpenError(error, path);
  }
}

function prepareFile(db: Database, path: string, log: Logger): string {
  db.run("PRAGMA busy_timeout = 5000");
  requireKnownFile(db, path);
  markAsStore(db);
  const { uncleanStop, machineRestarted } = claimFile(db, path);
  try {
    db.run("PRAGMA journal_mode = WAL");
    // Commits are synced by the write queue, beside this thread; SQLite syncs what checkpoints need.
    db.run("PRAGMA synchronous = NORMAL");
    db.run(`PRAGMA cache_size = ${-cacheKilobytes}`);
    // A log that one large commit has blown up is cut down again.
    db.run(`PRAGMA journal_size_limit = ${64 * 1024 * 1024}`);
    if (uncleanStop) checkAfterStop(db, path, { machineRestarted, log });
    bringUpToDate(db, path, log);
    return db.query<{ store_id: string }, []>("SELECT store_id FROM store").get()!.store_id;
  } catch (error) {
    abandonFile(db, uncleanStop);
    throw error;
  }
}

function checkAfterStop(
  db: Database,
  path: string,
  { machineRestarted, log }: { machineRestarted: boolean; log: Logger },
): void {
  const whole = machineRestarted || bytesInUse(db) <= wholeCheckBytes;
  log.warning("the store was not closed cleanly: checking its file", { path, whole });
  checkFile(db, path, { whole });
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
  if (isOld) db.run("PRAGMA wal_checkpoint(TRUNCATE)");
}

function asOpenError(error: unknown, path: string): unknown {
  if (error instanceof AglError || !(error instanceof Error)) return error;
  if ((error as { code?: unknown }).code === "SQLITE_CORRUPT") return damaged(path, error.message);
  if (isDiskFull(path)) {
    return new AglError("store", `cannot open the store file ${path}: its disk is full`, {
      remedy: "make room on that disk, or choose a store file on another one",
      cause: error,
    });
  }
  return new AglError("store", `cannot open the store file ${path}: ${messageOf(error)}`, {
    remedy: "check the path, its permissions and the free space, or choose another store file",
    cause: error,
  });
}

/** SQLite calls some of it an I/O error. */
function isDiskFull(path: string): boolean {
  try {
    return freeBytesBeside(path) < 100_000;
  } catch {
    return false;
  }
}
