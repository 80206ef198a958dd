import { messageOf, StoreRequestError } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { StoreApi } from "../protocol/store-api.ts";
import type { Span } from "../protocol/types.ts";

export interface RecorderOptions {
  store: Pick<StoreApi, "addSpans">;
  log: Logger;
  /** Calls that may wait for the store before new ones are refused. */
  maxWaitingCalls?: number;
  maxWaitingBytes?: number;
  firstRetryMs?: number;
  maxRetryMs?: number;
}

/** One call on its way from request to store. */
export interface OpenCall {
  /** Exactly once: the spans of the call, and about how much memory they hold. */
  record(makeSpans: () => Span[], bytes: number): void;
  /** The call ended before there was anything to record. */
  discard(): void;
}

export interface RecorderStatistics {
  openCalls: number;
  waitingCalls: number;
  waitingBytes: number;
  spansStored: number;
  spansDuplicate: number;
  spansRejected: number;
  callsLost: number;
  storeRetries: number;
}

interface WaitingCall {
  attempt: string;
  spans: Span[];
  bytes: number;
}

const maxBatchCalls = 200;
/** Well below what a store takes in one request. */
const maxBatchBytes = 8 * 1024 * 1024;

/**
 * Writes calls behind the answer, several in one grouped write. While the store is away they wait; at the bound
 * `isFull` tells the proxy to refuse new calls, so that none that was answered is lost.
 */
export class Recorder {
  readonly #options: Required<RecorderOptions>;
  readonly #waiting: WaitingCall[] = [];
  /** Calls not yet stored, by attempt. */
  readonly #unstored = new Map<string, number>();
  readonly #watchers = new Set<() => void>();
  readonly #closed = new AbortController();
  readonly #counts = { spansStored: 0, spansDuplicate: 0, spansRejected: 0, callsLost: 0, storeRetries: 0 };
  #open = 0;
  #waitingBytes = 0;
  #writing = false;
  #batchCalls = maxBatchCalls;

  constructor(options: RecorderOptions) {
    this.#options = {
      maxWaitingCalls: 20_000,
      maxWaitingBytes: 512 * 1024 * 1024,
      firstRetryMs: 100,
      maxRetryMs: 5_000,
      ...options,
    };
  }

  isFull(): boolean {
    const { maxWaitingCalls, maxWaitingBytes } = this.#options;
    return this.#waiting.length >= maxWaitingCalls || this.#waitingBytes >= maxWaitingBytes;
  }

  begin(rolloutId: string, attemptId: string): OpenCall {
    const attempt = attemptKey(rolloutId, attemptId);
    this.#open += 1;
    this.#unstored.set(attempt, (this.#unstored.get(attempt) ?? 0) + 1);
    let ended = false;
    const end = (then: () => void) => {
      if (ended) return;
      ended = true;
      this.#open -= 1;
      then();
    };
    return {
      record: (makeSpans, bytes) => end(() => this.#enqueue(attempt, makeSpans, bytes)),
      discard: () => end(() => this.#settle(attempt)),
    };
  }

  /** True when every call of the attempt (or of all attempts) is stored; false when time or the recorder ended. */
  flush(deadlineMs: number, rolloutId?: string, attemptId?: string): Promise<boolean> {
    const isDone =
      rolloutId === undefined || attemptId === undefined
        ? () => this.#unstored.size === 0
        : () => !this.#unstored.has(attemptKey(rolloutId, attemptId));
    if (isDone()) return Promise.resolve(true);
    if (this.#closed.signal.aborted) return Promise.resolve(false);
    return new Promise((resolve) => {
      const finish = (done: boolean) => {
        clearTimeout(timer);
        this.#watchers.delete(check);
        resolve(done);
      };
      const check = () => {
        if (isDone()) finish(true);
        else if (this.#closed.signal.aborted) finish(false);
      };
      const timer = setTimeout(() => finish(false), deadlineMs);
      this.#watchers.add(check);
    });
  }

  /** Gives up what is still waiting, and says how much that was. */
  close(): void {
    if (this.#closed.signal.aborted) return;
    this.#closed.abort();
    const lost = this.#waiting.splice(0);
    this.#loseCalls(lost, "the proxy is closing and the store has not taken them");
    for (const watcher of this.#watchers) watcher();
  }

  statistics(): RecorderStatistics {
    return {
      openCalls: this.#open,
      waitingCalls: this.#waiting.length,
      waitingBytes: this.#waitingBytes,
      ...this.#counts,
    };
  }

  #enqueue(attempt: string, makeSpans: () => Span[], bytes: number): void {
    let spans: Span[];
    try {
      spans = makeSpans();
    } catch (error) {
      this.#options.log.error("a call could not be written as spans", { error: messageOf(error) });
      this.#counts.callsLost += 1;
      this.#settle(attempt);
      return;
    }
    const call = { attempt, spans, bytes };
    this.#waitingBytes += bytes;
    if (this.#closed.signal.aborted) {
      this.#loseCalls([call], "the proxy is closed");
      return;
    }
    this.#waiting.push(call);
    if (!this.#writing) void this.#writeAll();
  }

  async #writeAll(): Promise<void> {
    this.#writing = true;
    let failures = 0;
    while (this.#waiting.length > 0 && !this.#closed.signal.aborted) {
      const batch = this.#nextBatch();
      const outcome = await this.#write(batch);
      if (outcome === "stored") {
        failures = 0;
        this.#batchCalls = Math.min(maxBatchCalls, this.#batchCalls * 2);
        continue;
      }
      // Smaller until a call that the store cannot take is alone; then the others go first.
      this.#batchCalls = Math.max(1, Math.floor(batch.length / 2));
      if (batch.length === 1) this.#waiting.push(...this.#waiting.splice(0, 1));
      if (outcome === "away") await this.#pause(failures++);
    }
    this.#writing = false;
  }

  #nextBatch(): WaitingCall[] {
    const batch: WaitingCall[] = [];
    let bytes = 0;
    for (const call of this.#waiting) {
      bytes += call.bytes;
      if (batch.length === this.#batchCalls || (batch.length > 0 && bytes > maxBatchBytes)) break;
      batch.push(call);
    }
    return batch;
  }

  /** The batch stays in the queue until the store has it, or has refused it for good. */
  async #write(batch: WaitingCall[]): Promise<"stored" | "refused" | "away"> {
    const { store, log } = this.#options;
    const spans = batch.flatMap((call) => call.spans);
    try {
      const result = await store.addSpans(spans);
      this.#counts.spansStored += result.stored;
      this.#counts.spansDuplicate += result.duplicates;
      this.#countRejected(result.rejected);
    } catch (error) {
      if (!(error instanceof StoreRequestError)) {
        if (this.#counts.storeRetries++ % 20 === 0) {
          log.warning("the store does not take spans; calls wait", { error: messageOf(error) });
        }
        return "away";
      }
      if (batch.length > 1) return "refused";
      this.#countRejected(spans.map(() => ({ detail: error.message })));
    }
    this.#take(batch);
    return "stored";
  }

  #countRejected(rejected: { detail: string }[]): void {
    this.#counts.spansRejected += rejected.length;
    const detail = rejected[0]?.detail;
    if (detail !== undefined) {
      this.#options.log.warning("the store refused spans", { spans: rejected.length, detail });
    }
  }

  #take(batch: WaitingCall[]): void {
    for (const call of batch) {
      const at = this.#waiting.indexOf(call);
      if (at === -1) continue;
      this.#waiting.splice(at, 1);
      this.#waitingBytes -= call.bytes;
      this.#settle(call.attempt);
    }
  }

  #settle(attempt: string): void {
    const left = (this.#unstored.get(attempt) ?? 1) - 1;
    if (left === 0) this.#unstored.delete(attempt);
    else this.#unstored.set(attempt, left);
    for (const watcher of this.#watchers) watcher();
  }

  #loseCalls(calls: WaitingCall[], reason: string): void {
    if (calls.length === 0) return;
    this.#counts.callsLost += calls.length;
    for (const { bytes } of calls) this.#waitingBytes -= bytes;
    this.#options.log.error("recorded calls are lost", { calls: calls.length, reason });
  }

  #pause(attempt: number): Promise<void> {
    const { firstRetryMs, maxRetryMs } = this.#options;
    const wait = Math.min(maxRetryMs, firstRetryMs * 2 ** Math.min(attempt, 20));
    const { signal } = this.#closed;
    return new Promise((resolve) => {
      const finish = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", finish);
        resolve();
      };
      const timer = setTimeout(finish, wait);
      signal.addEventListener("abort", finish);
    });
  }
}

function attemptKey(rolloutId: string, attemptId: string): string {
  return JSON.stringify([rolloutId, attemptId]);
}
