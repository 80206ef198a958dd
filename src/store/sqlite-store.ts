import type { Database } from "bun:sqlite";
import { AglError, messageOf } from "../errors.ts";
import { silentLogger } from "../log.ts";
import type { Logger } from "../log.ts";
import { isFinished, isQueuing } from "../protocol/enums.ts";
import { pageOfTexts } from "../protocol/json.ts";
import type {
  AttemptPatch,
  CallOptions,
  DequeueRequest,
  EnqueueRolloutRequest,
  NumberRequest,
  Paging,
  ResourcesQuery,
  RolloutPatch,
  RolloutQuery,
  SequenceNumber,
  SpanBatchResult,
  SpanQuery,
  StartRolloutRequest,
  StoreApi,
  WaitRequest,
  WorkerQuery,
} from "../protocol/store-api.ts";
import type {
  Attempt,
  AttemptedRollout,
  JsonObject,
  NamedResources,
  Page,
  ResourcesUpdate,
  Rollout,
  Span,
  Statistics,
  Worker,
} from "../protocol/types.ts";
import { endOfAttempt } from "./rules/attempt-end.ts";
import { Checkpoints } from "./file/checkpoints.ts";
import type { Checkpointer } from "./file/checkpoints.ts";
import { createClock } from "./clock.ts";
import { HealthScans } from "./health-scans.ts";
import { endedRollouts } from "./ended-rollouts.ts";
import { Dequeues } from "./waiting/dequeues.ts";
import { Holds, maxWaitSeconds } from "./waiting/hold.ts";
import { LogFile } from "./file/log-file.ts";
import { Operations } from "./operations.ts";
import { pageOf } from "./tables/query.ts";
import type { StatusChange } from "./tables/rollout-table.ts";
import { RolloutWaits } from "./waiting/rollout-waits.ts";
import { attemptedRolloutOf, attemptOf, resourcesOf, rolloutOf, spanOf, workerOf } from "./tables/rows.ts";
import { SpanWrites } from "./span-writes.ts";
import type { StoreObserver } from "./observer.ts";
import { closeStoreFile, openStoreFile } from "./file/store-file.ts";
import { openTables } from "./tables/tables.ts";
import type { Tables } from "./tables/tables.ts";
import { WriteQueue } from "./file/write-queue.ts";

export interface OpenStoreOptions {
  /** A file, made when it is missing, or ":memory:". */
  path: string;
  /** H-1: shortest time between two health scans; 0 scans at every call that asks for it. */
  scanDebounceSeconds?: number;
  /** Unix seconds; must grow with every call. */
  now?: () => number;
  log?: Logger;
  /** Without it, SQLite makes checkpoints inside of commits. */
  startCheckpointer?: (path: string) => Checkpointer;
}

/** Opens the store's file for this process alone. */
export function openStore(options: OpenStoreOptions): SqliteStore {
  const { path, scanDebounceSeconds = 10, now = createClock(), log = silentLogger } = options;
  const { db, storeId } = openStoreFile(path, log);
  const parts = { db, storeId, scanDebounceSeconds, now, log };
  if (path === ":memory:") return new SqliteStore(parts);
  const { startCheckpointer: start } = options;
  const checkpoints =
    start === undefined ? undefined : new Checkpoints(db, { start: () => start(path), log });
  return new SqliteStore({ ...parts, logFile: new LogFile(path), checkpoints });
}

interface StoreParts {
  db: Database;
  storeId: string;
  scanDebounceSeconds: number;
  now: () => number;
  log: Logger;
  /** Absent for what is kept in memory only. */
  logFile?: LogFile;
  checkpoints?: Checkpoints | undefined;
}

/** The durable store: one process, one connection, one writer. Made by `openStore`. */
export class SqliteStore implements StoreApi {
  readonly storeId: string;
  readonly #db: Database;
  readonly #logFile: LogFile | undefined;
  readonly #checkpoints: Checkpoints | undefined;
  readonly #now: () => number;
  readonly #log: Logger;
  readonly #started: number;
  readonly #scans: HealthScans;
  readonly #tables: Tables;
  readonly #operations: Operations;
  readonly #spanWrites: SpanWrites;
  readonly #writes: WriteQueue<StatusChange>;
  readonly #holds = new Holds();
  readonly #waits = new RolloutWaits();
  readonly #dequeues: Dequeues;
  #closed = false;
  #observer: StoreObserver | undefined;

  constructor(parts: StoreParts) {
    this.storeId = parts.storeId;
    this.#db = parts.db;
    this.#logFile = parts.logFile;
    this.#checkpoints = parts.checkpoints;
    this.#now = parts.now;
    this.#log = parts.log;
    this.#started = parts.now();
    const journal: StatusChange[] = [];
    this.#tables = openTables(parts.db, journal);
    this.#operations = new Operations(this.#tables, parts.now);
    this.#spanWrites = new SpanWrites(this.#tables, parts.now);
    this.#writes = new WriteQueue(parts.db, {
      journal,
      onCommit: (changes) => {
        this.#waits.onStatuses(changes);
        this.#tellEnded(changes);
        this.#checkpoints?.afterCommit();
      },
      follow: (changes) =>
        changes.some(({ status }) => isQueuing(status)) ? this.#dequeues.serveHeld() : undefined,
      log: parts.logFile,
    });
    this.#scans = new HealthScans({
      debounceSeconds: parts.scanDebounceSeconds,
      now: parts.now,
      log: parts.log,
      scan: () => this.#writes.submit(() => this.#operations.scan()),
      onScanned: (outcome) => this.#observer?.scanned(outcome),
    });
    this.#dequeues = new Dequeues({
      operations: this.#operations,
      holds: this.#holds,
      log: parts.log,
      write: (run) => this.#write(run),
    });
  }

  /** There is one observer at a time. */
  observe(observer: StoreObserver): void {
    this.#observer = observer;
  }

  async enqueueRollouts(requests: EnqueueRolloutRequest[]): Promise<Rollout[]> {
    if (requests.length === 0) return [];
    return this.#scanThenWrite(() => this.#operations.enqueue(requests));
  }

  /** On an aborted signal nothing is handed out and the answer is empty. */
  async dequeueRollouts(request: DequeueRequest, options: CallOptions = {}): Promise<AttemptedRollout[]> {
    const { signal } = options;
    if ((request.limit ?? 1) <= 0 || signal?.aborted) return [];
    this.#scan();
    const { claimed, waiting } = await this.#dequeues.dequeue(request, signal);
    if (waiting === undefined) return claimed;
    const served = await this.#scans.during(() => waiting);
    await this.#writes.settled();
    return served;
  }

  async startRollout(request: StartRolloutRequest): Promise<AttemptedRollout> {
    return this.#scanThenWrite(() => this.#operations.start(request));
  }

  async startAttempt(rolloutId: string, workerId?: string | null): Promise<AttemptedRollout> {
    return this.#scanThenWrite(() => this.#operations.startAttempt(rolloutId, workerId ?? null));
  }

  async queryRollouts(query: RolloutQuery): Promise<Page<Rollout | AttemptedRollout>> {
    return this.#scanThenRead(() =>
      pageOf(this.#tables.rollouts.list(query), ({ rollout, latest }) => attemptedRolloutOf(rollout, latest)),
    );
  }

  async getRollout(rolloutId: string): Promise<Rollout | AttemptedRollout | null> {
    return this.#scanThenRead(() => {
      const found = this.#tables.rollouts.getWithLatest(rolloutId);
      return found === null ? null : attemptedRolloutOf(found.rollout, found.latest);
    });
  }

  async updateRollout(rolloutId: string, patch: RolloutPatch): Promise<Rollout> {
    return this.#scanThenWrite(() => this.#operations.updateRollout(rolloutId, patch));
  }

  /** Ends early, with what is finished by then, on an aborted signal or when the store closes. */
  async waitForRollouts(request: WaitRequest, options: CallOptions = {}): Promise<Rollout[]> {
    await this.#scan();
    const byCondition = request.wait_seconds !== undefined;
    const seconds = byCondition
      ? Math.min(request.wait_seconds ?? 0, maxWaitSeconds)
      : (request.timeout ?? null);
    if ((seconds === null || seconds > 0) && !options.signal?.aborted) {
      const statuses = [...this.#tables.rollouts.statusesOf(request.rollout_ids)];
      const rollouts = statuses.map(([rolloutId, status]) => ({ rolloutId, finished: isFinished(status) }));
      const hold = this.#holds.open(seconds, options.signal);
      const wait = () => this.#waits.until(byCondition ? "any" : "all", rollouts, hold);
      await (byCondition ? this.#scans.during(wait) : wait());
    }
    return this.#closed ? [] : this.#read(() => this.#finished(request.rollout_ids));
  }

  async queryAttempts(rolloutId: string, paging: Paging = {}): Promise<Page<Attempt>> {
    return this.#scanThenRead(() => pageOf(this.#tables.attempts.list(rolloutId, paging), attemptOf));
  }

  async getLatestAttempt(rolloutId: string): Promise<Attempt | null> {
    return this.#scanThenRead(() => {
      const row = this.#tables.attempts.latest(rolloutId);
      return row === null ? null : attemptOf(row);
    });
  }

  async updateAttempt(rolloutId: string, attemptId: string, patch: AttemptPatch): Promise<Attempt> {
    return this.#scanThenWrite(() => this.#operations.updateAttempt(rolloutId, attemptId, patch));
  }

  async queryResources(query: ResourcesQuery): Promise<Page<ResourcesUpdate>> {
    return this.#read(() => pageOf(this.#tables.resources.list(query), resourcesOf));
  }

  async addResources(resources: NamedResources): Promise<ResourcesUpdate> {
    return this.#write(() => this.#operations.writeResources(null, resources));
  }

  async updateResources(resourcesId: string, resources: NamedResources): Promise<ResourcesUpdate> {
    return this.#scanThenWrite(() => this.#operations.writeResources(resourcesId, resources));
  }

  async getResources(resourcesId: string): Promise<ResourcesUpdate | null> {
    return this.#read(() => {
      const row = this.#tables.resources.get(resourcesId);
      return row === null ? null : resourcesOf(row);
    });
  }

  async getLatestResources(): Promise<ResourcesUpdate | null> {
    return this.#read(() => {
      const row = this.#tables.resources.latest();
      return row === null ? null : resourcesOf(row);
    });
  }

  async addSpan(span: Span): Promise<Span | null> {
    const outcome = await this.#write(() => this.#spanWrites.add([span]));
    const refusal = outcome.refusals.get(0);
    if (refusal !== undefined) throw refusal;
    return outcome.stored === 1 ? span : null;
  }

  async addSpans(spans: Span[]): Promise<SpanBatchResult> {
    if (spans.length === 0) return { stored: 0, duplicates: 0, rejected: [] };
    const { stored, duplicates, refusals } = await this.#write(() => this.#spanWrites.add(spans));
    const rejected = [...refusals].map(([index, error]) => ({ index, detail: error.message }));
    return { stored, duplicates, rejected };
  }

  async querySpans(query: SpanQuery): Promise<Page<Span>> {
    return this.#scanThenRead(() => {
      const { rows, ...page } = this.#tables.spans.list(this.#tables.attempts.withLatest(query));
      return pageOfTexts(
        rows.map(({ json }) => json),
        spanOf,
        page,
      );
    });
  }

  async nextSequenceId(rolloutId: string, _attemptId: string): Promise<number> {
    return this.#write(() => this.#tables.spans.nextSequence(rolloutId));
  }

  async nextSequenceIds(requests: NumberRequest[]): Promise<SequenceNumber[]> {
    if (requests.length === 0) return [];
    return this.#scanThenWrite(() =>
      requests.map(({ rollout_id, attempt_id }) => ({
        sequence_id: this.#tables.spans.nextSequence(rollout_id),
        ended_at: endOfAttempt(this.#tables.attempts, rollout_id, attempt_id),
      })),
    );
  }

  async queryWorkers(query: WorkerQuery): Promise<Page<Worker>> {
    return this.#scanThenRead(() => pageOf(this.#tables.workers.list(query), workerOf));
  }

  async getWorker(workerId: string): Promise<Worker | null> {
    return this.#read(() => {
      const row = this.#tables.workers.get(workerId);
      return row === null ? null : workerOf(row);
    });
  }

  async updateWorker(workerId: string, heartbeatStats?: JsonObject): Promise<Worker> {
    return this.#write(() => this.#operations.workerHeartbeat(workerId, heartbeatStats));
  }

  async statistics(): Promise<Statistics> {
    this.#requireOpen();
    return {
      name: "SqliteStore",
      total_rollouts: this.#tables.totals.rollouts(),
      total_attempts: this.#tables.totals.of("attempts"),
      total_spans: this.#tables.totals.of("spans"),
      total_resources: this.#tables.resources.count(),
      total_workers: this.#tables.workers.count(),
      uptime: this.#now() - this.#started,
    };
  }

  /** Answers what was accepted, ends every wait, and releases the file. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#writes.flush();
    this.#closed = true;
    this.#scans.stop();
    this.#holds.releaseAll();
    this.#logFile?.close();
    await this.#checkpoints?.stop();
    closeStoreFile(this.#db, this.#log);
  }

  #write<Value>(run: () => Value): Promise<Value> {
    this.#requireOpen();
    return this.#writes.submit(run);
  }

  /** Nobody is told what a power failure could take back. */
  async #read<Value>(run: () => Value): Promise<Value> {
    this.#requireOpen();
    const value = run();
    await this.#writes.settled();
    return value;
  }

  async #scanThenRead<Value>(run: () => Value): Promise<Value> {
    await this.#scan();
    return this.#read(run);
  }

  /** H-6: the scan is written first, so the call sees what it found; both share one commit. */
  #scanThenWrite<Value>(run: () => Value): Promise<Value> {
    this.#scan();
    return this.#write(run);
  }

  /** Reads wait for it; writes need not, they run after it. */
  #scan(): Promise<void> {
    this.#requireOpen();
    return this.#scans.scanIfDue();
  }

  #tellEnded(changes: readonly StatusChange[]): void {
    if (this.#observer === undefined || this.#closed) return;
    try {
      for (const ended of endedRollouts(this.#tables.rollouts, changes)) this.#observer.rolloutEnded(ended);
    } catch (error) {
      this.#log.warning("rollouts that ended could not be counted", { error: messageOf(error) });
    }
  }

  #finished(rolloutIds: readonly string[]): Rollout[] {
    const { rollouts } = this.#tables;
    const statuses = rollouts.statusesOf(rolloutIds);
    const finished = rolloutIds.filter((rolloutId) => {
      const status = statuses.get(rolloutId);
      return status !== undefined && isFinished(status);
    });
    const rows = new Map(rollouts.getMany(finished).map((row) => [row.rollout_id, row]));
    return finished.map((rolloutId) => rolloutOf(rows.get(rolloutId)!));
  }

  #requireOpen(): void {
    if (this.#closed) throw new AglError("store", "the store is closed");
  }
}
