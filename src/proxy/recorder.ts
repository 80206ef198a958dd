import { messageOf, StoreRequestError } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { StoreApi } from "../protocol/store-api.ts";
import type { Span } from "../protocol/types.ts";
import { attemptKey } from "./attempt-key.ts";
import type { CompletedCalls } from "./late-answers.ts";
import type { Spool } from "./spool.ts";
import type { SpoolRecord } from "./spool-records.ts";

export interface RecorderOptions {
  store: Pick<StoreApi, "addSpans">;
  log: Logger;
  /** Where calls wait while the store is away; without it, they wait in memory. */
  spool?: Spool | undefined;
  /** What becomes of calls when no more can wait: the proxy refuses new ones, or they are lost and counted. */
  whenFull?: "refuse" | "drop";
  /** Adds what only the store knows, just before calls are written. */
  complete?: (calls: Span[][]) => Promise<CompletedCalls>;
  /** All calls of the attempt are stored; it is named by its `attemptKey`. */
  onSettled?: (attempt: string) => void;
  /** Calls that may wait in memory. */
  maxWaitingCalls?: number;
  maxWaitingBytes?: number;
  firstRetryMs?: number;
  maxRetryMs?: number;
  /** How long a write may take before its calls, and those behind it, are put on disk. */
  patienceMs?: number;
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
  /** Calls that wait on disk. */
  spooledCalls: number;
  spooledBytes: number;
  /** Calls of which the store said only when they were written that they were late. */
  callsFoundStale: number;
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

/** The calls that one write takes along. */
interface Batch {
  calls: WaitingCall[];
  onDisk: boolean;
}

const maxBatchCalls = 200;
/** Well below what a store takes in one request. */
const maxBatchBytes = 8 * 1024 * 1024;

/**
 * Writes calls behind the answer, several in one grouped write. While the store is away or slow they wait on disk, and
 * go to the store in their order when it is back; those that an earlier process left there go first. At the bound
 * `isFull` tells the proxy to refuse new calls, so that none that was answered is lost.
 */
export class Recorder {
  readonly #options: Required<Omit<RecorderOptions, "spool">> & Pick<RecorderOptions, "spool">;
  readonly #waiting: WaitingCall[] = [];
  /** Calls not yet stored, by attempt. */
  readonly #unstored = new Map<string, number>();
  readonly #watchers = new Set<() => void>();
  readonly #closed = new AbortController();
  readonly #counts = {
    callsFoundStale: 0,
    spansStored: 0,
    spansDuplicate: 0,
    spansRejected: 0,
    callsLost: 0,
    storeRetries: 0,
  };
  #open = 0;
  #waitingBytes = 0;
  #writing = false;
  #away = false;
  #closing = false;
  #spilling: Promise<void> | undefined;
  #saidFull = false;
  #batchCalls = maxBatchCalls;

  constructor(options: RecorderOptions) {
    this.#options = {
      whenFull: "refuse",
      complete: (calls) => Promise.resolve({ calls, stale: 0 }),
      onSettled: () => {},
      maxWaitingCalls: 20_000,
      maxWaitingBytes: 512 * 1024 * 1024,
      firstRetryMs: 100,
      maxRetryMs: 5_000,
      patienceMs: 5_000,
      ...options,
    };
    const found = options.spool?.found.splice(0) ?? [];
    for (const attempt of found) this.#hold(attempt);
    if (found.length === 0) return;
    options.log.warning("calls that an earlier process recorded are sent to the store", {
      calls: found.length,
    });
    void this.#writeAll();
  }

  /** The last write failed, or takes long. */
  get storeIsAway(): boolean {
    return this.#away;
  }

  isFull(): boolean {
    const { maxWaitingCalls, maxWaitingBytes, spool } = this.#options;
    if (spool?.isFull() === true) return true;
    return this.#waiting.length >= maxWaitingCalls || this.#waitingBytes >= maxWaitingBytes;
  }

  /** Whether a new call has to be turned away, because what it records could not be kept. */
  refusesCalls(): boolean {
    const full = this.isFull();
    if (full !== this.#saidFull) this.#sayFull(full);
    return full && this.#options.whenFull === "refuse";
  }

  begin(rolloutId: string, attemptId: string): OpenCall {
    const attempt = attemptKey({ rolloutId, attemptId });
    this.#open += 1;
    this.#hold(attempt);
    let ended = false;
    const end = (then: () => void) => {
      if (ended) return;
      ended = true;
      this.#open -= 1;
      then();
      this.#tellWatchers();
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
        : () => !this.#unstored.has(attemptKey({ rolloutId, attemptId }));
    if (isDone()) return Promise.resolve(true);
    if (this.#closed.signal.aborted) return Promise.resolve(false);
    return this.#until(isDone, deadlineMs);
  }

  /** False when time or the recorder ended. */
  #until(isDone: () => boolean, limitMs: number): Promise<boolean> {
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
      const timer = setTimeout(() => finish(false), limitMs);
      this.#watchers.add(check);
    });
  }

  /**
   * Leaves on disk what still waits, or gives it up, and says how much that was. Calls that were just answered are
   * waited for, since their record comes a moment later.
   */
  async close(): Promise<void> {
    if (this.#closing) return;
    this.#closing = true;
    const { spool, log, patienceMs } = this.#options;
    if (this.#open > 0) await this.#until(() => this.#open === 0, 2 * patienceMs);
    this.#closed.abort();
    if (spool !== undefined) await this.#spill();
    this.#loseCalls([...this.#waiting], "the proxy is closing and the store has not taken them");
    this.#tellWatchers();
    if (spool === undefined) return;
    if (spool.calls > 0) {
      const { calls, folder } = spool;
      log.warning("recorded calls wait on disk for the next start of the proxy", { calls, folder });
    }
    await spool.close();
  }

  statistics(): RecorderStatistics {
    const { spool } = this.#options;
    return {
      openCalls: this.#open,
      waitingCalls: this.#waiting.length,
      waitingBytes: this.#waitingBytes,
      spooledCalls: spool?.calls ?? 0,
      spooledBytes: spool?.bytes ?? 0,
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
    if (this.#closed.signal.aborted) return this.#loseCalls([call], "the proxy is closed");
    if (this.#options.whenFull === "drop" && this.isFull()) {
      this.#loseCalls([call], "no more calls can wait for the store, and proxy.when_full is drop");
      return this.#settle(attempt);
    }
    this.#waiting.push(call);
    this.#waitingBytes += bytes;
    if (this.#waitsOnDisk()) setImmediate(() => void this.#spill());
    if (!this.#writing) void this.#writeAll();
  }

  async #writeAll(): Promise<void> {
    const { spool, log } = this.#options;
    this.#writing = true;
    // The calls of one tick go together.
    await new Promise((resolve) => setImmediate(resolve));
    let failures = 0;
    while (!this.#closed.signal.aborted) {
      const batch = await this.#nextBatch().catch((error: unknown) => {
        log.error("calls on disk cannot be read; they are tried again", { error: messageOf(error) });
        return null;
      });
      if (batch === null) {
        await this.#pause(failures++);
        continue;
      }
      if (batch.calls.length === 0) {
        if (this.#waiting.length === 0 && (spool?.calls ?? 0) === 0) break;
        continue;
      }
      const outcome = await this.#writePatiently(batch);
      this.#away = outcome === "away";
      if (outcome === "stored") {
        failures = 0;
        this.#batchCalls = Math.min(maxBatchCalls, this.#batchCalls * 2);
        continue;
      }
      // Smaller until a call that the store cannot take is alone; then the others go first.
      this.#batchCalls = Math.max(1, Math.floor(batch.calls.length / 2));
      if (batch.calls.length === 1) await this.#putLast(batch);
      if (outcome !== "away") continue;
      await this.#spill();
      await this.#pause(failures++);
    }
    this.#writing = false;
  }

  /** While anything is on disk, what is newer goes there, too: calls keep their order. */
  #waitsOnDisk(): boolean {
    const { spool } = this.#options;
    return spool !== undefined && (this.#away || spool.calls > 0);
  }

  async #nextBatch(): Promise<Batch> {
    const { spool } = this.#options;
    if (spool !== undefined && this.#waitsOnDisk()) {
      await this.#spill();
      const records = await spool.oldest(this.#batchCalls, maxBatchBytes);
      if (records.length > 0) return { calls: records.map(fromDisk), onDisk: true };
    }
    const calls: WaitingCall[] = [];
    let bytes = 0;
    for (const call of this.#waiting) {
      bytes += call.bytes;
      if (calls.length === this.#batchCalls || (calls.length > 0 && bytes > maxBatchBytes)) break;
      calls.push(call);
    }
    return { calls, onDisk: false };
  }

  async #writePatiently(batch: Batch): Promise<"stored" | "refused" | "away"> {
    const timer = setTimeout(() => {
      this.#away = true;
      void this.#spill();
    }, this.#options.patienceMs);
    const outcome = await this.#write(batch);
    clearTimeout(timer);
    return outcome;
  }

  /** The batch stays where it waits until the store has it, or has refused it for good. */
  async #write(batch: Batch): Promise<"stored" | "refused" | "away"> {
    const { store, log, complete } = this.#options;
    let spans: Span[] = [];
    try {
      const { calls, stale } = await complete(batch.calls.map((call) => call.spans));
      spans = calls.flat();
      const result = await store.addSpans(spans);
      this.#counts.callsFoundStale += stale;
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
      if (batch.calls.length > 1) return "refused";
      this.#countRejected((batch.calls[0]?.spans ?? []).map(() => ({ detail: error.message })));
    }
    await this.#take(batch);
    return "stored";
  }

  #countRejected(rejected: { detail: string }[]): void {
    this.#counts.spansRejected += rejected.length;
    const detail = rejected[0]?.detail;
    if (detail !== undefined) {
      this.#options.log.warning("the store refused spans", { spans: rejected.length, detail });
    }
  }

  async #take({ calls, onDisk }: Batch): Promise<void> {
    if (onDisk) await this.#options.spool?.remove(calls.length);
    for (const call of calls) if (onDisk || this.#leaveMemory(call)) this.#settle(call.attempt);
  }

  async #putLast({ calls, onDisk }: Batch): Promise<void> {
    const { spool, log } = this.#options;
    if (!onDisk || spool === undefined) {
      this.#waiting.push(...this.#waiting.splice(0, 1));
      return;
    }
    try {
      await spool.append(calls.map(toDisk));
      await spool.remove(calls.length);
    } catch (error) {
      log.warning("a call cannot be put behind the others", { error: messageOf(error) });
    }
  }

  /** Puts on disk what waits in memory, as long as there is room. */
  #spill(): Promise<void> {
    this.#spilling ??= this.#spillAll().finally(() => (this.#spilling = undefined));
    return this.#spilling;
  }

  async #spillAll(): Promise<void> {
    const { spool, log } = this.#options;
    while (spool !== undefined && this.#waiting.length > 0 && !spool.isFull()) {
      const calls = this.#waiting.slice(0, maxBatchCalls);
      try {
        await spool.append(calls.map(toDisk));
      } catch (error) {
        log.error("calls cannot be put on disk; they wait in memory", { error: messageOf(error) });
        return;
      }
      // One that was stored meanwhile is now on disk a second time.
      for (const call of calls) if (!this.#leaveMemory(call)) this.#hold(call.attempt);
    }
  }

  /** False when the call is not there any more. */
  #leaveMemory(call: WaitingCall): boolean {
    const at = this.#waiting.indexOf(call);
    if (at === -1) return false;
    this.#waiting.splice(at, 1);
    this.#waitingBytes -= call.bytes;
    return true;
  }

  #hold(attempt: string): void {
    this.#unstored.set(attempt, (this.#unstored.get(attempt) ?? 0) + 1);
  }

  #settle(attempt: string): void {
    const left = (this.#unstored.get(attempt) ?? 1) - 1;
    if (left > 0) this.#unstored.set(attempt, left);
    else {
      this.#unstored.delete(attempt);
      this.#options.onSettled(attempt);
    }
    this.#tellWatchers();
  }

  #tellWatchers(): void {
    for (const watcher of this.#watchers) watcher();
  }

  #loseCalls(calls: WaitingCall[], reason: string): void {
    if (calls.length === 0) return;
    const before = this.#counts.callsLost;
    this.#counts.callsLost += calls.length;
    for (const call of calls) this.#leaveMemory(call);
    // One by one, they would fill the log.
    if (before === 0 || calls.length > 1 || before % 1_000 === 0) {
      this.#options.log.error("recorded calls are lost", { calls: this.#counts.callsLost, reason });
    }
  }

  #sayFull(full: boolean): void {
    const { log, whenFull } = this.#options;
    this.#saidFull = full;
    if (!full) return log.warning("recorded calls can wait for the store again");
    const consequence = whenFull === "refuse" ? "new calls are refused" : "new calls are not recorded";
    log.error(`no more recorded calls can wait for the store: ${consequence}`, {
      in_memory: this.#waiting.length,
      on_disk: this.#options.spool?.calls ?? 0,
    });
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

function toDisk({ attempt, spans }: WaitingCall): SpoolRecord {
  return { attempt, spans: JSON.stringify(spans) };
}

function fromDisk({ attempt, spans }: SpoolRecord): WaitingCall {
  return { attempt, spans: JSON.parse(spans) as Span[], bytes: spans.length };
}
