import { AglError, messageOf } from "../errors.ts";
import type { CommitLog } from "./log-file.ts";

export interface Commit {
  onDisk(): void;
  /** It is made, but nobody knows whether it will be there after a power failure. */
  onFailure(error: AglError): void;
}

/** Commits that are made, but told to nobody until they are on disk. */
export class UnsyncedCommits {
  readonly #log: CommitLog | undefined;
  /** Oldest first. */
  readonly #waiting: Commit[] = [];
  #syncing = false;
  #failure: AglError | undefined;

  /** Without a log a commit is as durable as it gets when it is made. */
  constructor(log?: CommitLog) {
    this.#log = log;
  }

  /** Set for ever by a sync that failed: what the disk lost then, a later success would hide. */
  get failure(): AglError | undefined {
    return this.#failure;
  }

  add(commit: Commit): void {
    if (this.#log === undefined) {
      commit.onDisk();
      return;
    }
    this.#waiting.push(commit);
    this.#sync(this.#log);
  }

  /** When everything that is committed now is on disk: nobody may read what a power failure could take back. */
  settled(): Promise<void> {
    if (this.#waiting.length === 0) return Promise.resolve();
    return new Promise((resolve, reject) => this.#waiting.push({ onDisk: resolve, onFailure: reject }));
  }

  flush(): void {
    if (this.#log === undefined || this.#waiting.length === 0) return;
    try {
      this.#log.syncNow();
    } catch (error) {
      this.#fail(error);
      return;
    }
    for (const commit of this.#waiting.splice(0)) commit.onDisk();
  }

  #sync(log: CommitLog): void {
    if (this.#syncing) return;
    this.#syncing = true;
    const last = this.#waiting.at(-1);
    log.sync((error) => {
      this.#syncing = false;
      if (error === null) this.#tell(last);
      else this.#fail(error);
      if (this.#waiting.length > 0) this.#sync(log);
    });
  }

  /** Those up to `last`, unless a flush was quicker. */
  #tell(last: Commit | undefined): void {
    const count = last === undefined ? 0 : this.#waiting.indexOf(last) + 1;
    for (const commit of this.#waiting.splice(0, count)) commit.onDisk();
  }

  #fail(error: unknown): void {
    this.#failure ??= new AglError("store", `the store file could not be synced: ${messageOf(error)}`, {
      remedy: "check the disk, then start the store again",
      cause: error,
    });
    for (const commit of this.#waiting.splice(0)) commit.onFailure(this.#failure);
  }
}
