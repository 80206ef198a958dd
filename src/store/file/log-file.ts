import { closeSync, fdatasync, fdatasyncSync, openSync } from "node:fs";

/** Brings commits to the disk. */
export interface CommitLog {
  /** Everything that is committed so far is on disk when `done` is called without an error. */
  sync(done: (error: Error | null) => void): void;
  syncNow(): void;
}

/**
 * SQLite's write-ahead log, synced from another thread: while the disk works, the next requests are read, checked and
 * written. SQLite itself (`synchronous=FULL`) would stand still in every commit. It keeps no lock on this file, so
 * that opening and closing it once more is safe.
 */
export class LogFile implements CommitLog {
  readonly #path: string;
  #descriptor: number | undefined;
  #syncing = 0;
  #closed = false;

  constructor(databasePath: string) {
    this.#path = `${databasePath}-wal`;
  }

  sync(done: (error: Error | null) => void): void {
    let descriptor: number;
    try {
      descriptor = this.#open();
    } catch (error) {
      done(error as Error);
      return;
    }
    this.#syncing += 1;
    fdatasync(descriptor, (error) => {
      this.#syncing -= 1;
      if (this.#closed) this.#release();
      done(error);
    });
  }

  syncNow(): void {
    fdatasyncSync(this.#open());
  }

  close(): void {
    this.#closed = true;
    this.#release();
  }

  /** SQLite makes the file with the first commit. */
  #open(): number {
    this.#descriptor ??= openSync(this.#path, "r");
    return this.#descriptor;
  }

  #release(): void {
    if (this.#descriptor === undefined || this.#syncing > 0) return;
    closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }
}
