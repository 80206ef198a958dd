import type { AttemptStatus, Mode, RolloutStatus, WorkerStatus } from "../../protocol/enums.ts";
import { exactOnWire } from "../../protocol/json.ts";
import type {
  Attempt,
  AttemptedRollout,
  ResourcesUpdate,
  Rollout,
  RolloutConfig,
  Span,
  Worker,
} from "../../protocol/types.ts";

/** The tables' rows. Opaque values stay JSON text until somebody reads them. */
export interface RolloutRow {
  rollout_id: string;
  input: string;
  start_time: number;
  end_time: number | null;
  mode: Mode | null;
  resources_id: string | null;
  status: RolloutStatus;
  config: string;
  metadata: string | null;
  attempt_count: number;
}

export interface AttemptRow {
  rollout_id: string;
  attempt_id: string;
  sequence_id: number;
  start_time: number;
  end_time: number | null;
  status: AttemptStatus;
  worker_id: string | null;
  last_heartbeat_time: number | null;
  metadata: string | null;
}

export interface WorkerRow {
  worker_id: string;
  status: WorkerStatus;
  heartbeat_stats: string | null;
  last_heartbeat_time: number | null;
  last_dequeue_time: number | null;
  last_busy_time: number | null;
  last_idle_time: number | null;
  current_rollout_id: string | null;
  current_attempt_id: string | null;
}

export interface ResourcesRow {
  resources_id: string;
  create_time: number;
  update_time: number;
  version: number;
  resources: string;
}

type Parse = (text: string) => any;

export function rolloutOf(row: RolloutRow): Rollout {
  return exactOnWire([row.input, row.metadata], (parse) => rolloutMembers(row, parse));
}

/** D-7: without an attempt there is no `attempt` member at all. */
export function attemptedRolloutOf(row: RolloutRow, attempt: AttemptRow | null): Rollout | AttemptedRollout {
  return attempt === null ? rolloutOf(row) : withAttempt(row, attempt);
}

export function withAttempt(row: RolloutRow, attempt: AttemptRow): AttemptedRollout {
  return exactOnWire([row.input, row.metadata, attempt.metadata], (parse) => ({
    ...rolloutMembers(row, parse),
    attempt: attemptMembers(attempt, parse),
  }));
}

export function attemptOf(row: AttemptRow): Attempt {
  return exactOnWire([row.metadata], (parse) => attemptMembers(row, parse));
}

export function workerOf(row: WorkerRow): Worker {
  return exactOnWire([row.heartbeat_stats], (parse) => ({
    worker_id: row.worker_id,
    status: row.status,
    heartbeat_stats: orNull(row.heartbeat_stats, parse),
    last_heartbeat_time: row.last_heartbeat_time,
    last_dequeue_time: row.last_dequeue_time,
    last_busy_time: row.last_busy_time,
    last_idle_time: row.last_idle_time,
    current_rollout_id: row.current_rollout_id,
    current_attempt_id: row.current_attempt_id,
  }));
}

export function resourcesOf(row: ResourcesRow): ResourcesUpdate {
  return exactOnWire([row.resources], (parse) => ({
    resources_id: row.resources_id,
    create_time: row.create_time,
    update_time: row.update_time,
    version: row.version,
    resources: parse(row.resources),
  }));
}

export function spanOf(json: string): Span {
  return exactOnWire([json], (parse): Span => parse(json));
}

export function configOf(row: RolloutRow): RolloutConfig {
  return JSON.parse(row.config);
}

function rolloutMembers(row: RolloutRow, parse: Parse): Rollout {
  return {
    rollout_id: row.rollout_id,
    input: parse(row.input),
    start_time: row.start_time,
    end_time: row.end_time,
    mode: row.mode,
    resources_id: row.resources_id,
    status: row.status,
    config: configOf(row),
    metadata: orNull(row.metadata, parse),
  };
}

function attemptMembers(row: AttemptRow, parse: Parse): Attempt {
  return {
    rollout_id: row.rollout_id,
    attempt_id: row.attempt_id,
    sequence_id: row.sequence_id,
    start_time: row.start_time,
    end_time: row.end_time,
    status: row.status,
    worker_id: row.worker_id,
    last_heartbeat_time: row.last_heartbeat_time,
    metadata: orNull(row.metadata, parse),
  };
}

function orNull(text: string | null, parse: Parse): any {
  return text === null ? null : parse(text);
}
