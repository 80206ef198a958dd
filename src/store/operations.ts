import type { Database } from "bun:sqlite";
import { StoreRequestError } from "../errors.ts";
import { stringifyJson } from "../protocol/json.ts";
import type { RolloutStatus } from "../protocol/enums.ts";
import type {
  AttemptPatch,
  DequeueRequest,
  EnqueueRolloutRequest,
  RolloutPatch,
  StartRolloutRequest,
} from "../protocol/store-api.ts";
import type {
  Attempt,
  AttemptedRollout,
  JsonObject,
  NamedResources,
  ResourcesUpdate,
  Rollout,
  RolloutConfig,
  Span,
  Worker,
} from "../protocol/types.ts";
import { AttemptTable } from "./attempt-table.ts";
import { overdueStatus } from "./health.ts";
import { defaultConfig, movesWorker, propagate, withAttemptPatch, withRolloutStatus } from "./lifecycle.ts";
import type { RolloutState } from "./lifecycle.ts";
import { ResourceTable } from "./resource-table.ts";
import { RolloutTable } from "./rollout-table.ts";
import { attemptOf, configOf, resourcesOf, rolloutOf, withAttempt, workerOf } from "./rows.ts";
import type { AttemptRow, RolloutRow, WorkerRow } from "./rows.ts";
import { attemptAfterSpan, rolloutAfterSpan } from "./span-effects.ts";
import { SpanTable } from "./span-table.ts";
import { syncedWorker, workerAfterEmptyDequeue } from "./worker-rules.ts";
import { WorkerTable } from "./worker-table.ts";

/** A rollout's status was written. */
export interface StatusChange {
  rolloutId: string;
  status: RolloutStatus;
}

export interface SpansOutcome {
  stored: number;
  duplicates: number;
  refusals: Map<number, StoreRequestError>;
}

/**
 * What each write of the store does, by the rules of the life cycle. Every method runs inside a
 * transaction of the write queue: it reads, decides and writes without waiting for anything.
 */
export class Operations {
  readonly rollouts: RolloutTable;
  readonly attempts: AttemptTable;
  readonly spans: SpanTable;
  readonly resources: ResourceTable;
  readonly workers: WorkerTable;
  readonly #now: () => number;
  readonly #journal: StatusChange[];

  constructor(db: Database, now: () => number, journal: StatusChange[]) {
    this.rollouts = new RolloutTable(db);
    this.attempts = new AttemptTable(db);
    this.spans = new SpanTable(db);
    this.resources = new ResourceTable(db);
    this.workers = new WorkerTable(db);
    this.#now = now;
    this.#journal = journal;
  }

  enqueue(requests: readonly EnqueueRolloutRequest[]): Rollout[] {
    const latestResources = this.resources.latest()?.resources_id ?? null;
    return requests.map((request) => {
      const row = this.#newRollout(request, "queuing", latestResources);
      this.rollouts.insert(row);
      this.#journal.push({ rolloutId: row.rollout_id, status: row.status });
      return rolloutOf(row);
    });
  }

  start(request: StartRolloutRequest): AttemptedRollout {
    const latestResources = this.resources.latest()?.resources_id ?? null;
    const row = this.#newRollout(request, "preparing", latestResources);
    this.rollouts.insert(row);
    return this.#addAttempt(row, request.worker_id ?? null, row.start_time);
  }

  startAttempt(rolloutId: string, workerId: string | null): AttemptedRollout {
    return this.#addAttempt(this.#rollout(rolloutId), workerId, this.#now());
  }

  dequeue(request: DequeueRequest): AttemptedRollout[] {
    const claimed = this.claim(request);
    if (claimed.length === 0 && isNamed(request.worker_id)) {
      this.workers.change(request.worker_id, (worker) => workerAfterEmptyDequeue(worker, this.#now()));
    }
    return claimed;
  }

  /** S-3, S-5: as `dequeue`, but an empty claim leaves no trace. */
  claim(request: DequeueRequest): AttemptedRollout[] {
    const claimed: AttemptedRollout[] = [];
    const workerId = request.worker_id ?? null;
    while (claimed.length < (request.limit ?? 1)) {
      const row = this.rollouts.takeQueued();
      if (row === null) break;
      const now = this.#now();
      claimed.push(this.#addAttempt(row, workerId, now));
      if (!isNamed(workerId)) continue;
      this.workers.change(workerId, (worker) => ({ ...worker, last_dequeue_time: now }));
    }
    return claimed;
  }

  updateRollout(rolloutId: string, patch: RolloutPatch): Rollout {
    const row = this.#rollout(rolloutId);
    const content: RolloutRow = {
      ...row,
      input: patch.input === undefined ? row.input : stringifyJson(patch.input),
      mode: patch.mode === undefined ? row.mode : patch.mode,
      resources_id: patch.resources_id === undefined ? row.resources_id : patch.resources_id,
      config: patch.config === undefined ? row.config : stringifyJson(completeConfig(patch.config)),
      metadata: patch.metadata === undefined ? row.metadata : textOf(patch.metadata),
    };
    this.rollouts.setContent(content);
    if (patch.status === undefined) return rolloutOf(content);
    const state = withRolloutStatus(row, patch.status, this.#now());
    this.#setState(rolloutId, state);
    return rolloutOf({ ...content, ...state });
  }

  updateAttempt(rolloutId: string, attemptId: string, patch: AttemptPatch): Attempt {
    const rollout = this.#rollout(rolloutId);
    const attempt = this.#attempt(rollout, attemptId);
    const row = this.#applyAttemptPatch(rollout, attempt, patch, this.#now());
    return attemptOf(row);
  }

  writeResources(resourcesId: string | null, resources: NamedResources): ResourcesUpdate {
    const id = resourcesId ?? this.resources.newId();
    return resourcesOf(this.resources.write(id, stringifyJson(resources), this.#now()));
  }

  /** Each span is stored, a duplicate, or refused on its own; effects are applied once per attempt. */
  addSpans(spans: readonly Span[]): SpansOutcome {
    const outcome: SpansOutcome = { stored: 0, duplicates: 0, refusals: new Map() };
    const touched = new Map<AttemptRow, RolloutRow>();
    const find = this.#attemptFinder();
    spans.forEach((span, index) => {
      this.spans.raiseSequence(span.rollout_id, span.sequence_id);
      const found = find(span.rollout_id, span.attempt_id);
      if (found instanceof StoreRequestError) {
        outcome.refusals.set(index, found);
      } else if (this.spans.insert(span)) {
        outcome.stored += 1;
        touched.set(found.attempt, found.rollout);
      } else {
        outcome.duplicates += 1;
      }
    });
    for (const [attempt, rollout] of touched) this.#applySpanEffects(attempt, rollout);
    return outcome;
  }

  workerHeartbeat(workerId: string, heartbeatStats: JsonObject | undefined): Worker {
    const now = this.#now();
    const row = this.workers.change(workerId, (worker) => ({
      ...worker,
      last_heartbeat_time: now,
      heartbeat_stats: heartbeatStats === undefined ? worker.heartbeat_stats : stringifyJson(heartbeatStats),
    }));
    return workerOf(row);
  }

  /** H-3 to H-5: each overdue attempt is updated as a caller would. Returns how many there were. */
  scan(): number {
    const now = this.#now();
    let hits = 0;
    for (const { rollout, latest } of this.rollouts.listActive()) {
      const status = latest === null ? null : overdueStatus(latest, configOf(rollout), now);
      if (latest === null || status === null) continue;
      this.#applyAttemptPatch(rollout, latest, { status }, now);
      hits += 1;
    }
    return hits;
  }

  #newRollout(
    request: EnqueueRolloutRequest,
    status: RolloutStatus,
    latestResources: string | null,
  ): RolloutRow {
    return {
      rollout_id: this.rollouts.newId(),
      input: stringifyJson(request.input ?? null),
      start_time: this.#now(),
      end_time: null,
      mode: request.mode ?? null,
      resources_id: request.resources_id ?? latestResources,
      status,
      config: stringifyJson(completeConfig(request.config ?? {})),
      metadata: stringifyJson(request.metadata ?? {}),
      attempt_count: 0,
    };
  }

  #addAttempt(rollout: RolloutRow, workerId: string | null, now: number): AttemptedRollout {
    const sequenceId = rollout.attempt_count + 1;
    const attempt: AttemptRow = {
      rollout_id: rollout.rollout_id,
      attempt_id: this.attempts.newId(rollout.rollout_id),
      sequence_id: sequenceId,
      start_time: now,
      end_time: null,
      status: "preparing",
      worker_id: workerId,
      last_heartbeat_time: null,
      metadata: null,
    };
    this.attempts.insert(attempt);
    this.rollouts.setAttemptCount(rollout.rollout_id, sequenceId);
    const state = withRolloutStatus(rollout, "preparing", now);
    this.#setState(rollout.rollout_id, state);
    this.#syncWorker(attempt, now);
    return withAttempt({ ...rollout, ...state, attempt_count: sequenceId }, attempt);
  }

  /** S-14: attempt, then rollout and queue, then worker. */
  #applyAttemptPatch(rollout: RolloutRow, attempt: AttemptRow, patch: AttemptPatch, now: number): AttemptRow {
    const { metadata, ...members } = patch;
    const rowPatch: Partial<AttemptRow> =
      metadata === undefined ? members : { ...members, metadata: stringifyJson(metadata) };
    const row = withAttemptPatch<AttemptRow>(attempt, rowPatch, now);
    this.attempts.save(row);
    if (row.sequence_id === rollout.attempt_count) {
      const config = configOf(rollout);
      const statusGiven = patch.status !== undefined;
      const state = propagate({ rollout, config, attempt: row, statusGiven, now });
      if (state !== null) this.#setState(rollout.rollout_id, state);
    }
    if (movesWorker(row, patch)) this.#syncWorker(row, now);
    return row;
  }

  #applySpanEffects(attempt: AttemptRow, rollout: RolloutRow): void {
    const row = attemptAfterSpan(attempt, this.#now());
    this.attempts.save(row);
    if (row.sequence_id !== rollout.attempt_count) return;
    const state = rolloutAfterSpan(rollout, row);
    if (state !== null) this.#setState(rollout.rollout_id, state);
  }

  /** P-1, looked up once per attempt of a batch. */
  #attemptFinder() {
    type Found = { rollout: RolloutRow; attempt: AttemptRow } | StoreRequestError;
    const known = new Map<string, Found>();
    const lookUp = (rolloutId: string, attemptId: string): Found => {
      const rollout = this.rollouts.get(rolloutId);
      if (rollout === null) return unknownRollout(rolloutId);
      const attempt = this.attempts.get(rolloutId, attemptId);
      return attempt === null ? unknownAttempt(rolloutId, attemptId) : { rollout, attempt };
    };
    return (rolloutId: string, attemptId: string): Found => {
      const key = JSON.stringify([rolloutId, attemptId]);
      const found = known.get(key) ?? lookUp(rolloutId, attemptId);
      known.set(key, found);
      return found;
    };
  }

  #setState(rolloutId: string, state: RolloutState): void {
    this.rollouts.setState(rolloutId, state);
    this.#journal.push({ rolloutId, status: state.status });
  }

  #syncWorker(attempt: AttemptRow, now: number): void {
    if (!isNamed(attempt.worker_id)) return;
    this.workers.change(attempt.worker_id, (worker) => syncedWorker<WorkerRow>(worker, attempt, now));
  }

  #rollout(rolloutId: string): RolloutRow {
    const row = this.rollouts.get(rolloutId);
    if (row === null) throw unknownRollout(rolloutId);
    return row;
  }

  #attempt(rollout: RolloutRow, attemptId: string): AttemptRow {
    const { rollout_id: rolloutId } = rollout;
    const latest = attemptId === "latest" ? this.attempts.latest(rolloutId) : null;
    const row = latest ?? this.attempts.get(rolloutId, attemptId);
    if (row !== null) return row;
    if (rollout.attempt_count > 0) throw unknownAttempt(rolloutId, attemptId);
    throw new StoreRequestError(404, `Rollout ${rolloutId} has no attempts`);
  }
}

function completeConfig(config: Partial<RolloutConfig>): RolloutConfig {
  return {
    timeout_seconds: config.timeout_seconds ?? defaultConfig.timeout_seconds,
    unresponsive_seconds: config.unresponsive_seconds ?? defaultConfig.unresponsive_seconds,
    max_attempts: config.max_attempts ?? defaultConfig.max_attempts,
    retry_condition: config.retry_condition ?? defaultConfig.retry_condition,
  };
}

function textOf(value: JsonObject | null): string | null {
  return value === null ? null : stringifyJson(value);
}

function isNamed(workerId: string | null | undefined): workerId is string {
  return workerId !== null && workerId !== undefined && workerId !== "";
}

function unknownRollout(rolloutId: string): StoreRequestError {
  return new StoreRequestError(404, `Rollout ${rolloutId} not found`);
}

function unknownAttempt(rolloutId: string, attemptId: string): StoreRequestError {
  return new StoreRequestError(404, `Attempt ${attemptId} not found in rollout ${rolloutId}`);
}
