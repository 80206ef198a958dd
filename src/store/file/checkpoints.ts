import type { Database, Statement } from "bun:sqlite";
import { messageOf } from "../../errors.ts";
import type { Logger } from "../../log.ts";

/** Moves what the log holds into the file, on another connection. One call at a time. */
export interface Checkpointer {
  checkpoint(): Promise<void>;
  stop(): Promise<void>;
}

/** Changed rows after which the next checkpoint is due. */
const rowsPerCheckpoint = 1_000;
/** Pages of 4 KB in the log at which SQLite makes a checkpoint inside a commit: its own number, and our bound. */
const pagesInline = 1_000;
const pagesAtMost = 16_384;

/**
 * Checkpoints beside the thread that writes. Inside commits, where SQLite makes them, they were most of the time that
 * writing took: every 4 MB, the disk had to take thousands of scattered pages before the next request was read.
 * Only when they do not keep up does a commit make one again, so that the log stays below 64 MB or so.
 */
export class Checkpoints {
  readonly #db: Database;
  readonly #start: () => Checkpointer;
  readonly #log: Logger;
  readonly #changes: Statement<{ n: number }, []>;
  #checkpointer: Checkpointer | undefined;
  #running: Promise<void> | undefined;
  #changesBefore = 0;
  #stopped = false;

  constructor(db: Database, parts: { start: () => Checkpointer; log: Logger }) {
    this.#db = db;
    this.#start = parts.start;
    this.#log = parts.log;
    this.#changes = db.prepare("SELECT total_changes() AS n");
    db.run(`PRAGMA wal_autocheckpoint = ${pagesAtMost}`);
  }

  afterCommit(): void {
    if (this.#stopped || this.#running !== undefined) return;
    const changes = this.#changes.get()!.n;
    if (changes - this.#changesBefore < rowsPerCheckpoint) return;
    this.#changesBefore = changes;
    this.#running = this.#checkpoint().finally(() => (this.#running = undefined));
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#changes.finalize();
    await this.#running;
    try {
      await this.#checkpointer?.stop();
    } catch (error) {
      this.#log.warning("checkpoints beside the store did not end in order", { error: messageOf(error) });
    }
  }

  async #checkpoint(): Promise<void> {
    try {
      this.#checkpointer ??= this.#start();
      await this.#checkpointer.checkpoint();
    } catch (error) {
      this.#log.warning("checkpoints are made while writing, as they failed beside it", {
        error: messageOf(error),
      });
      if (this.#stopped) return;
      this.#stopped = true;
      this.#db.run(`PRAGMA wal_autocheckpoint = ${pagesInline}`);
    }
  }
}
