import { messageOf, StoreRequestError } from "../../errors.ts";
import type { Logger } from "../../log.ts";
import type { StoreApi } from "../../protocol/store-api.ts";
import type { Span } from "../../protocol/types.ts";
import { attemptKey } from "./attempt-key.ts";
import { Backlog, type Batch, type WaitingCall } from "./backlog.ts";
import type { CompletedCalls } from "./late-answers.ts";
import type { Spool } from "./spool.ts";
import { UnstoredCalls } from "./unstored-calls.ts";

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
  /** The last write to the store failed, or takes long. */
  storeAway: boolean;
  /** Calls of which the store said only when they were written that they were late. */
  callsFoundStale: number;
  spansStored: number;
  spansDuplicate: number;
  spansRejected: number;
  callsLost: number;
  storeRetries: number;
}

/** Refused is for good; an error that the store answers with may be one call's doing; away is nobody's. */
type Outcome = "stored" | "refused" | "error" | "away";

const maxBatchCalls = 200;
/** As if this many writes had failed before: seconds, not a busy loop. */
const unexpectedFailures = 5;
/** Well below what a store takes in one request. */
const maxBatchBytes = 8 * 1024 * 1024;

/**
 * Writes calls behind the answer, several in one grouped write. While the store is away or slow they wait on disk, and
 * go to the store in their order when it is back; those that an earlier process left there go first. At the bound
 * `isFull` tells the proxy to refuse new calls, so that none that was answered is lost.
 */
export class Recorder {
  readonly #options: Required<Omit<RecorderOptions, "spool" | "maxWaitingCalls" | "maxWaitingBytes">>;
  readonly #backlog: Backlog;
  readonly #unstored: UnstoredCalls;
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
  #writing = false;
  #away = false;
  #closing = false;
  #saidFull = false;
  #batchCalls = maxBatchCalls;

  constructor({ spool, maxWaitingCalls, maxWaitingBytes, ...options }: RecorderOptions) {
    this.#options = {
      whenFull: "refuse",
      complete: (calls) => Promise.resolve({ calls, stale: 0 }),
      onSettled: () => {},
      firstRetryMs: 100,
      maxRetryMs: 5_000,
      patienceMs: 5_000,
      ...options,
    };
    const { log, onSettled } = this.#options;
    this.#unstored = new UnstoredCalls(onSettled);
    this.#backlog = new Backlog({
      log,
      spool,
      maxCalls: maxWaitingCalls ?? 20_000,
      maxBytes: maxWaitingBytes ?? 512 * 1024 * 1024,
      onTwice: (attempt) => this.#unstored.add(attempt),
    });
    if (spool !== undefined) spool.onLost = (attempts) => this.#loseOnDisk(attempts);
    const found = spool?.found.splice(0) ?? [];
    for (const attempt of found) this.#unstored.add(attempt);
    if (found.length === 0) return;
    log.warning("calls that an earlier process recorded are sent to the store", { calls: found.length });
    this.#startWriting();
  }

  /** The last write failed, or takes long. */
  get storeIsAway(): boolean {
    return this.#away;
  }

  isFull(): boolean {
    return this.#backlog.isFull();
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
    this.#unstored.add(attempt);
    let ended = false;
    const end = (then: () => void) => {
      if (ended) return;
      ended = true;
      this.#open -= 1;
      then();
      this.#unstored.changed();
    };
    return {
      record: (makeSpans, bytes) => end(() => this.#enqueue(attempt, makeSpans, bytes)),
      discard: () => end(() => this.#unstored.settle(attempt)),
    };
  }

  /** True when every call of the attempt (or of all attempts) is stored; false when time or the recorder ended. */
  flush(deadlineMs: number, rolloutId?: string, attemptId?: string): Promise<boolean> {
    const attempt =
      rolloutId === undefined || attemptId === undefined ? undefined : attemptKey({ rolloutId, attemptId });
    return this.#unstored.until(() => this.#unstored.isSettled(attempt), deadlineMs, this.#closed.signal);
  }

  /**
   * Leaves on disk what still waits, or gives it up, and says how much that was. Calls that were just answered are
   * waited for, since their record comes a moment later.
   */
  async close(): Promise<void> {
    if (this.#closing) return;
    this.#closing = true;
    const noneIsOpen = () => this.#open === 0;
    if (!noneIsOpen()) {
      await this.#unstored.until(noneIsOpen, this.#options.patienceMs + 500, this.#closed.signal);
    }
    this.#closed.abort();
    if (this.#backlog.hasDisk) await this.#backlog.spill();
    this.#countLost(this.#backlog.drop().length, "the proxy is closing and the store has not taken them");
    await this.#backlog.close();
  }

  statistics(): RecorderStatistics {
    return {
      openCalls: this.#open,
      ...this.#backlog.statistics(),
      storeAway: this.#away,
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
      return this.#unstored.settle(attempt);
    }
    if (this.#closed.signal.aborted) return this.#countLost(1, "the proxy is closed");
    if (this.#options.whenFull === "drop" && this.isFull()) {
      this.#countLost(1, "no more calls can wait for the store, and proxy.when_full is drop");
      return this.#unstored.settle(attempt);
    }
    this.#backlog.push({ attempt, spans, bytes });
    if (this.#away || this.#backlog.isOnDisk) setImmediate(() => void this.#backlog.spill());
    this.#startWriting();
  }

  /** What must not happen is said, and ends neither the recording nor the process. */
  #startWriting(): void {
    if (this.#writing) return;
    this.#writing = true;
    this.#writeAll().then(
      () => (this.#writing = false),
      async (error) => {
        this.#options.log.error("recorded calls could not be written", { error: messageOf(error) });
        await this.#pause(unexpectedFailures);
        this.#writing = false;
        if (!this.#backlog.isEmpty && !this.#closed.signal.aborted) this.#startWriting();
      },
    );
  }

  async #writeAll(): Promise<void> {
    // The calls of one tick go together.
    await new Promise((resolve) => setImmediate(resolve));
    let failures = 0;
    while (!this.#closed.signal.aborted) {
      const batch = await this.#nextBatch();
      if (batch?.calls.length === 0) {
        if (this.#backlog.isEmpty) break;
        continue;
      }
      const outcome = batch === null ? "away" : await this.#writePatiently(batch);
      this.#away = outcome === "away" || outcome === "error";
      if (outcome === "stored") {
        failures = 0;
        this.#batchCalls = Math.min(maxBatchCalls, this.#batchCalls * 2);
        continue;
      }
      // Else the calls would lose their order each time that the store is away.
      if (batch !== null && outcome !== "away") await this.#splitUp(batch);
      if (outcome === "refused") continue;
      await this.#backlog.spill();
      await this.#pause(failures++);
    }
  }

  /** Null when what is on disk cannot be read now. */
  async #nextBatch(): Promise<Batch | null> {
    try {
      return await this.#backlog.next(this.#batchCalls, maxBatchBytes);
    } catch (error) {
      this.#options.log.error("calls on disk cannot be read now", { error: messageOf(error) });
      return null;
    }
  }

  /** Smaller until a call that the store cannot take is alone; then the others go first. */
  async #splitUp(batch: Batch): Promise<void> {
    this.#batchCalls = Math.max(1, Math.floor(batch.calls.length / 2));
    if (batch.calls.length === 1) await this.#backlog.putLast(batch);
  }

  async #writePatiently(batch: Batch): Promise<Outcome> {
    const timer = setTimeout(() => {
      this.#away = true;
      void this.#backlog.spill();
    }, this.#options.patienceMs);
    const outcome = await this.#write(batch);
    clearTimeout(timer);
    return outcome;
  }

  /** The batch stays where it waits until the store has it, or has refused it for good. */
  async #write(batch: Batch): Promise<Outcome> {
    try {
      await this.#send(batch.calls);
    } catch (error) {
      if (!(error instanceof StoreRequestError)) {
        this.#sayAway(error);
        return isAnswer(error) ? "error" : "away";
      }
      if (batch.calls.length > 1) return "refused";
      this.#countRejected((batch.calls[0]?.spans ?? []).map(() => ({ detail: error.message })));
    }
    for (const { attempt } of await this.#backlog.take(batch)) this.#unstored.settle(attempt);
    return "stored";
  }

  async #send(waiting: WaitingCall[]): Promise<void> {
    const { store, complete } = this.#options;
    const { calls, stale } = await complete(waiting.map(({ spans }) => spans));
    const result = await store.addSpans(calls.flat());
    this.#counts.callsFoundStale += stale;
    this.#counts.spansStored += result.stored;
    this.#counts.spansDuplicate += result.duplicates;
    this.#countRejected(result.rejected);
  }

  #countRejected(rejected: { detail: string }[]): void {
    this.#counts.spansRejected += rejected.length;
    const detail = rejected[0]?.detail;
    if (detail !== undefined) {
      this.#options.log.warning("the store refused spans", { spans: rejected.length, detail });
    }
  }

  #loseOnDisk(attempts: string[]): void {
    this.#countLost(attempts.length, "their file on disk is gone or damaged");
    for (const attempt of attempts) this.#unstored.settle(attempt);
  }

  #countLost(calls: number, reason: string): void {
    if (calls === 0) return;
    const before = this.#counts.callsLost;
    this.#counts.callsLost += calls;
    // One by one, they would fill the log.
    if (before === 0 || calls > 1 || before % 1_000 === 0) {
      this.#options.log.error("recorded calls are lost", { calls: before + calls, reason });
    }
  }

  #sayAway(error: unknown): void {
    if (this.#counts.storeRetries++ % 20 !== 0) return;
    this.#options.log.warning("the store does not take spans; calls wait", { error: messageOf(error) });
  }

  #sayFull(full: boolean): void {
    const { log, whenFull } = this.#options;
    this.#saidFull = full;
    if (!full) return log.warning("recorded calls can wait for the store again");
    const consequence = whenFull === "refuse" ? "new calls are refused" : "new calls are not recorded";
    const { waitingCalls: in_memory, spooledCalls: on_disk } = this.#backlog.statistics();
    log.error(`no more recorded calls can wait for the store: ${consequence}`, { in_memory, on_disk });
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

/** The store was reached, and its answer was an error other than that it is stopping. */
function isAnswer(error: unknown): boolean {
  const cause = error instanceof Error ? (error.cause as { status?: unknown } | undefined) : undefined;
  return typeof cause?.status === "number" && cause.status !== 503;
}
