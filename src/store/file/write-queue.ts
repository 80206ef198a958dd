import type { Database, Statement } from "bun:sqlite";
import { AglError, StoreRequestError, messageOf } from "../../errors.ts";
import type { CommitLog } from "./log-file.ts";
import { UnsyncedCommits } from "./unsynced-commits.ts";

export interface Operation {
  run(): unknown;
  resolve(value: any): void;
  reject(error: unknown): void;
}

type Outcome = { value: unknown } | { error: unknown };

export interface WriteQueueOptions<Entry> {
  /** Where writes note what others should learn once it is committed; entries of failed writes are dropped. */
  journal?: Entry[];
  onCommit?: (entries: Entry[]) => void;
  /** A further write of the same commit, for which its entries call. */
  follow?: (entries: readonly Entry[]) => Operation | undefined;
  /** Absent when a commit is as durable as it gets once it is made. */
  log?: CommitLog | undefined;
  maxPending?: number;
}

/** Bounds what one commit holds, so that a flood of writes still answers its first ones soon. */
const maxPerCommit = 512;

/**
 * Grouped commits: every write of one tick shares one transaction, and an answer is given only when
 * the commit that holds it is on disk. One commit per write was measured nine times slower with synchronous FULL.
 * While one commit is on its way to the disk, the next ones are made. A write that throws is rolled back alone.
 */
export class WriteQueue<Entry = never> {
  readonly #db: Database;
  readonly #maxPending: number;
  readonly #journal: Entry[];
  readonly #onCommit: (entries: Entry[]) => void;
  readonly #follow: (entries: readonly Entry[]) => Operation | undefined;
  readonly #unsynced: UnsyncedCommits;
  readonly #savepoint: Statement;
  readonly #release: Statement;
  readonly #rollbackTo: Statement;
  #pending: Operation[] = [];
  /** Pending, or not yet on disk. */
  #unanswered = 0;
  #scheduled = false;

  constructor(db: Database, options: WriteQueueOptions<Entry> = {}) {
    this.#db = db;
    this.#maxPending = options.maxPending ?? 20_000;
    this.#journal = options.journal ?? [];
    this.#onCommit = options.onCommit ?? (() => {});
    this.#follow = options.follow ?? (() => undefined);
    this.#unsynced = new UnsyncedCommits(options.log);
    this.#savepoint = db.prepare("SAVEPOINT operation");
    this.#release = db.prepare("RELEASE operation");
    this.#rollbackTo = db.prepare("ROLLBACK TO operation");
  }

  /** Runs `run` inside the next commit; writes run in the order in which they were submitted. */
  submit<Value>(run: () => Value): Promise<Value> {
    if (this.#unanswered >= this.#maxPending) {
      return Promise.reject(new AglError("store", `${this.#maxPending} writes are waiting: try again later`));
    }
    return new Promise<Value>((resolve, reject) => {
      this.#unanswered += 1;
      this.#pending.push({ run, resolve, reject });
      this.#schedule();
    });
  }

  /** When everything that can be read now is on disk. */
  settled(): Promise<void> {
    return this.#unsynced.settled();
  }

  /** Commits everything submitted so far, at once, and waits for the disk. */
  flush(): void {
    while (this.#pending.length > 0) this.#commitNext();
    this.#unsynced.flush();
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#commitNext();
      if (this.#pending.length > 0) this.#schedule();
    });
  }

  #commitNext(): void {
    const batch = this.#pending.splice(0, maxPerCommit);
    if (batch.length === 0) return;
    const count = batch.length;
    const refuse = (failure: unknown) => {
      this.#unanswered -= count;
      for (const operation of batch) operation.reject(failure);
    };
    if (this.#unsynced.failure !== undefined) return refuse(this.#unsynced.failure);
    let outcomes: Outcome[];
    try {
      outcomes = this.#db.transaction(() => this.#runAll(batch)).immediate();
    } catch (error) {
      this.#journal.length = 0;
      return refuse(asStoreError(error));
    }
    const entries = this.#journal.splice(0);
    const onDisk = () => {
      this.#unanswered -= count;
      batch.forEach((operation, index) => settle(operation, outcomes[index]!));
      this.#onCommit(entries);
    };
    this.#unsynced.add({ onDisk, onFailure: refuse });
  }

  /** Adds what follows to the batch. */
  #runAll(batch: Operation[]): Outcome[] {
    const outcomes = batch.map((operation) => this.#runAlone(operation));
    const further = this.#follow(this.#journal);
    if (further === undefined) return outcomes;
    batch.push(further);
    return [...outcomes, this.#runAlone(further)];
  }

  #runAlone(operation: Operation): Outcome {
    const mark = this.#journal.length;
    this.#savepoint.run();
    try {
      const value = operation.run();
      this.#release.run();
      return { value };
    } catch (error) {
      // A full disk, for one, ends the whole transaction: nobody's write is kept.
      if (!this.#db.inTransaction) throw error;
      this.#journal.length = mark;
      this.#rollbackTo.run();
      this.#release.run();
      return { error };
    }
  }
}

function settle(operation: Operation, outcome: Outcome): void {
  if ("error" in outcome) operation.reject(asStoreError(outcome.error));
  else operation.resolve(outcome.value);
}

/** SQLite's own failures become one line; a refusal or a programming error stays what it is. */
function asStoreError(error: unknown): unknown {
  if (error instanceof StoreRequestError || error instanceof AglError) return error;
  if (!(error instanceof Error) || error.name !== "SQLiteError") return error;
  if ((error as { code?: unknown }).code === "SQLITE_FULL") {
    return new AglError("store", "the disk is full: nothing of this was stored", {
      remedy: "make room on the disk of the store's file; the store then takes writes again by itself",
      cause: error,
    });
  }
  return new AglError("store", `the store file could not be written: ${messageOf(error)}`, {
    remedy: "check the free space and the permissions of its folder",
    cause: error,
  });
}
