import { AglError, messageOf } from "../../errors.ts";
import type { CommitLog } from "./log-file.ts";

export interface Commit {
  onDisk(): void;
  /** It is made, but nobody knows whether it will be there after a power failure. */
  onFailure(error: AglError): void;
}

interface Waiting {
  commit: Commit;
  /** Those who read while this was the latest commit. */
  readers: PromiseWithResolvers<void>[];
}

/** Commits that are made, but told to nobody until they are on disk. */
export class UnsyncedCommits {
  readonly #log: CommitLog | undefined;
  /** Oldest first. */
  readonly #waiting: Waiting[] = [];
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
    this.#waiting.push({ commit, readers: [] });
    this.#sync(this.#log);
  }

  /** When everything that is committed now is on disk: nobody may read what a power failure could take back. */
  settled(): Promise<void> {
    const latest = this.#waiting.at(-1);
    if (latest === undefined) return Promise.resolve();
    const reader = Promise.withResolvers<void>();
    latest.readers.push(reader);
    return reader.promise;
  }

  flush(): void {
    if (this.#log === undefined || this.#waiting.length === 0) return;
    try {
      this.#log.syncNow();
    } catch (error) {
      this.#fail(error);
      return;
    }
    this.#tell(this.#waiting.at(-1));
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
  #tell(last: Waiting | undefined): void {
    const count = last === undefined ? 0 : this.#waiting.indexOf(last) + 1;
    for (const { commit, readers } of this.#waiting.splice(0, count)) {
      commit.onDisk();
      for (const reader of readers) reader.resolve();
    }
  }

  #fail(error: unknown): void {
    this.#failure ??= new AglError("store", `the store file could not be synced: ${messageOf(error)}`, {
      remedy: "check the disk, then start the store again",
      cause: error,
    });
    for (const { commit, readers } of this.#waiting.splice(0)) {
      commit.onFailure(this.#failure);
      for (const reader of readers) reader.reject(this.#failure);
    }
  }
}
