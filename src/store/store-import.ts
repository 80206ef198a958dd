import type { Database } from "bun:sqlite";
import { existsSync, rmSync } from "node:fs";
import { AglError, messageOf } from "../errors.ts";
import { silentLogger } from "../log.ts";
import type { Logger } from "../log.ts";
import type { StoreRecord } from "../protocol/store-record.ts";
import { type RecordFate, RecordWrites } from "./record-writes.ts";
import type { StatusChange } from "./tables/rollout-table.ts";
import { closeStoreFile, openStoreFile } from "./file/store-file.ts";
import { openTables, type Tables } from "./tables/tables.ts";

/** Claims a store's file, which is made when it is missing, for one import. */
export function openStoreImport(path: string, log: Logger = silentLogger): StoreImport {
  const isNew = !existsSync(path);
  const { db } = openStoreFile(path, log);
  return new StoreImport(db, { path, isNew, log });
}

/** Records of other stores, written as they are in one transaction: all of them with `commit`, or none. */
export class StoreImport {
  readonly #db: Database;
  readonly #path: string;
  readonly #isNew: boolean;
  readonly #log: Logger;
  readonly #tables: Tables;
  readonly #writes: RecordWrites;
  readonly #journal: StatusChange[] = [];
  #committed = false;

  constructor(db: Database, { path, isNew, log }: { path: string; isNew: boolean; log: Logger }) {
    this.#db = db;
    this.#path = path;
    this.#isNew = isNew;
    this.#log = log;
    this.#tables = openTables(db, this.#journal);
    this.#writes = new RecordWrites(this.#tables);
    this.#db.run("BEGIN IMMEDIATE");
  }

  /** A `StoreRequestError` refuses this record alone. */
  write(record: StoreRecord): RecordFate {
    // Nobody waits for statuses here.
    this.#journal.length = 0;
    return this.#guarded(() => this.#writes.write(record));
  }

  commit(): void {
    this.#guarded(() => {
      this.#tables.resources.rankByUpdate();
      this.#db.run("COMMIT");
    });
    this.#committed = true;
  }

  /** Without `commit` the file is as it was before; one that was made for the import is gone. */
  close(): void {
    try {
      if (this.#db.inTransaction) this.#db.run("ROLLBACK");
    } catch (error) {
      // The failure that led here is the one to report.
      this.#log.warning("the import could not be rolled back in order", { error: messageOf(error) });
    }
    closeStoreFile(this.#db, this.#log);
    if (this.#committed || !this.#isNew) return;
    for (const suffix of ["", "-wal", "-shm"]) rmSync(this.#path + suffix, { force: true });
  }

  #guarded<Value>(run: () => Value): Value {
    try {
      return run();
    } catch (error) {
      if (!(error instanceof Error) || error.name !== "SQLiteError") throw error;
      throw new AglError("store", `${this.#path} could not be written: ${messageOf(error)}`, {
        remedy: "check the free space and the permissions of its folder; nothing was imported",
        cause: error,
      });
    }
  }
}
