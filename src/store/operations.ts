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
  Worker,
} from "../protocol/types.ts";
import { overdueStatus } from "./rules/health.ts";
import {
  defaultConfig,
  movesWorker,
  propagate,
  withAttemptPatch,
  withRolloutStatus,
} from "./rules/lifecycle.ts";
import { attemptOf, configOf, resourcesOf, rolloutOf, withAttempt, workerOf } from "./tables/rows.ts";
import type { AttemptRow, RolloutRow, WorkerRow } from "./tables/rows.ts";
import type { Tables } from "./tables/tables.ts";
import { unknownAttempt, unknownRollout } from "./unknown-ids.ts";
import { syncedWorker, workerAfterEmptyDequeue } from "./rules/worker-rules.ts";

/**
 * What each write of the store does, by the rules of the life cycle. Every method runs inside a
 * transaction of the write queue: it reads, decides and writes without waiting for anything.
 */
export class Operations {
  readonly #tables: Tables;
  readonly #now: () => number;

  constructor(tables: Tables, now: () => number) {
    this.#tables = tables;
    this.#now = now;
  }

  enqueue(requests: readonly EnqueueRolloutRequest[]): Rollout[] {
    const latestResources = this.#tables.resources.latest()?.resources_id ?? null;
    return requests.map((request) => {
      const row = this.#newRollout(request, "queuing", latestResources);
      this.#tables.rollouts.insert(row);
      return rolloutOf(row);
    });
  }

  start(request: StartRolloutRequest): AttemptedRollout {
    const latestResources = this.#tables.resources.latest()?.resources_id ?? null;
    const row = this.#newRollout(request, "preparing", latestResources);
    this.#tables.rollouts.insert(row);
    return this.#addAttempt(row, request.worker_id ?? null, row.start_time);
  }

  startAttempt(rolloutId: string, workerId: string | null): AttemptedRollout {
    return this.#addAttempt(this.#rollout(rolloutId), workerId, this.#now());
  }

  dequeue(request: DequeueRequest): AttemptedRollout[] {
    const claimed = this.claim(request);
    if (claimed.length === 0 && isNamed(request.worker_id)) {
      this.#tables.workers.change(request.worker_id, (worker) =>
        workerAfterEmptyDequeue(worker, this.#now()),
      );
    }
    return claimed;
  }

  /** S-3, S-5: as `dequeue`, but an empty claim leaves no trace. */
  claim(request: DequeueRequest): AttemptedRollout[] {
    const claimed: AttemptedRollout[] = [];
    const workerId = request.worker_id ?? null;
    while (claimed.length < (request.limit ?? 1)) {
      const row = this.#tables.rollouts.takeQueued();
      if (row === null) break;
      const now = this.#now();
      claimed.push(this.#addAttempt(row, workerId, now));
      if (!isNamed(workerId)) continue;
      this.#tables.workers.change(workerId, (worker) => ({ ...worker, last_dequeue_time: now }));
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
    this.#tables.rollouts.setContent(content);
    if (patch.status === undefined) return rolloutOf(content);
    const state = withRolloutStatus(row, patch.status, this.#now());
    this.#tables.rollouts.setState(rolloutId, state);
    return rolloutOf({ ...content, ...state });
  }

  updateAttempt(rolloutId: string, attemptId: string, patch: AttemptPatch): Attempt {
    const rollout = this.#rollout(rolloutId);
    const attempt = this.#attempt(rollout, attemptId);
    const row = this.#applyAttemptPatch(rollout, attempt, patch, this.#now());
    return attemptOf(row);
  }

  writeResources(resourcesId: string | null, resources: NamedResources): ResourcesUpdate {
    const id = resourcesId ?? this.#tables.resources.newId();
    return resourcesOf(this.#tables.resources.write(id, stringifyJson(resources), this.#now()));
  }

  workerHeartbeat(workerId: string, heartbeatStats: JsonObject | undefined): Worker {
    const now = this.#now();
    const row = this.#tables.workers.change(workerId, (worker) => ({
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
    for (const { rollout, latest } of this.#tables.rollouts.listActive()) {
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
      rollout_id: this.#tables.rollouts.newId(),
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
      attempt_id: this.#tables.attempts.newId(rollout.rollout_id),
      sequence_id: sequenceId,
      start_time: now,
      end_time: null,
      status: "preparing",
      worker_id: workerId,
      last_heartbeat_time: null,
      metadata: null,
    };
    this.#tables.attempts.insert(attempt);
    this.#tables.rollouts.setAttemptCount(rollout.rollout_id, sequenceId);
    const state = withRolloutStatus(rollout, "preparing", now);
    this.#tables.rollouts.setState(rollout.rollout_id, state);
    this.#syncWorker(attempt, now);
    return withAttempt({ ...rollout, ...state, attempt_count: sequenceId }, attempt);
  }

  /** S-14: attempt, then rollout and queue, then worker. */
  #applyAttemptPatch(rollout: RolloutRow, attempt: AttemptRow, patch: AttemptPatch, now: number): AttemptRow {
    const { metadata, ...members } = patch;
    const rowPatch: Partial<AttemptRow> =
      metadata === undefined ? members : { ...members, metadata: stringifyJson(metadata) };
    const row = withAttemptPatch<AttemptRow>(attempt, rowPatch, now);
    this.#tables.attempts.save(row);
    if (row.sequence_id === rollout.attempt_count) {
      const config = configOf(rollout);
      const statusGiven = patch.status !== undefined;
      const state = propagate({ rollout, config, attempt: row, statusGiven, now });
      if (state !== null) this.#tables.rollouts.setState(rollout.rollout_id, state);
    }
    if (movesWorker(row, patch)) this.#syncWorker(row, now);
    return row;
  }

  #syncWorker(attempt: AttemptRow, now: number): void {
    if (!isNamed(attempt.worker_id)) return;
    this.#tables.workers.change(attempt.worker_id, (worker) => syncedWorker<WorkerRow>(worker, attempt, now));
  }

  #rollout(rolloutId: string): RolloutRow {
    const row = this.#tables.rollouts.get(rolloutId);
    if (row === null) throw unknownRollout(rolloutId);
    return row;
  }

  #attempt(rollout: RolloutRow, attemptId: string): AttemptRow {
    const { rollout_id: rolloutId } = rollout;
    const latest = attemptId === "latest" ? this.#tables.attempts.latest(rolloutId) : null;
    const row = latest ?? this.#tables.attempts.get(rolloutId, attemptId);
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
