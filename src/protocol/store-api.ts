import type { AttemptStatus, Mode, RolloutStatus, WorkerStatus } from "./enums.ts";
import type {
  Attempt,
  AttemptedRollout,
  JsonObject,
  NamedResources,
  Page,
  ResourcesUpdate,
  Rollout,
  RolloutConfig,
  Span,
  Statistics,
  Worker,
} from "./types.ts";

/** Requests are the wire's JSON bodies; a member that is absent is not the same as one that is null. */
export interface EnqueueRolloutRequest {
  input: unknown;
  mode?: Mode | null;
  resources_id?: string | null;
  config?: Partial<RolloutConfig> | null;
  metadata?: JsonObject | null;
}

export interface StartRolloutRequest extends EnqueueRolloutRequest {
  worker_id?: string | null;
}

export interface DequeueRequest {
  limit?: number;
  worker_id?: string | null;
  /**
   * An extension of ours: seconds for which an empty answer may be held until a rollout comes.
   * A store that does not know it answers at once.
   */
  wait_seconds?: number;
}

export interface WaitRequest {
  rollout_ids: string[];
  /** Seconds to wait for all of them; null waits without limit, 0 answers at once. */
  timeout?: number | null;
  /**
   * An extension of ours: seconds for which the answer may be held until at least one of the
   * rollouts is finished. When given, `timeout` is ignored. A store that does not know it follows `timeout`.
   */
  wait_seconds?: number;
}

export interface Paging {
  sort_by?: string | null;
  sort_order?: "asc" | "desc";
  limit?: number;
  offset?: number;
}

export interface RolloutQuery extends Paging {
  status_in?: RolloutStatus[] | null;
  rollout_id_in?: string[] | null;
  rollout_id_contains?: string | null;
  /** Upstream's dashboard asks for it; upstream's server ignores it. */
  mode_in?: Mode[] | null;
  filter_logic?: "and" | "or";
}

export interface ResourcesQuery extends Paging {
  resources_id?: string | null;
  resources_id_contains?: string | null;
}

export interface SpanQuery extends Paging {
  rollout_id: string;
  /** An attempt id, `"latest"`, or null for all attempts. */
  attempt_id?: string | null;
  trace_id?: string | null;
  trace_id_contains?: string | null;
  span_id?: string | null;
  span_id_contains?: string | null;
  parent_id?: string | null;
  parent_id_contains?: string | null;
  name?: string | null;
  name_contains?: string | null;
  filter_logic?: "and" | "or";
}

export interface WorkerQuery extends Paging {
  status_in?: WorkerStatus[] | null;
  worker_id_contains?: string | null;
  filter_logic?: "and" | "or";
}

export interface RolloutPatch {
  input?: unknown;
  mode?: Mode | null;
  resources_id?: string | null;
  status?: RolloutStatus;
  config?: Partial<RolloutConfig>;
  metadata?: JsonObject | null;
}

export interface AttemptPatch {
  status?: AttemptStatus;
  worker_id?: string;
  last_heartbeat_time?: number;
  metadata?: JsonObject;
}

/** An extension of ours: names the store in each of its answers. */
export const storeIdHeader = "agl-store-id";

/** What became of a batch of spans. A rejected span never stops its neighbours. */
export interface SpanBatchResult {
  stored: number;
  duplicates: number;
  rejected: { index: number; detail: string }[];
}

/** Whose span is about to be made. */
export interface NumberRequest {
  rollout_id: string;
  attempt_id: string;
}

export interface SequenceNumber {
  sequence_id: number;
  /** Unix seconds at which the attempt ended or was followed by another; null while it runs, or when there is none. */
  ended_at: number | null;
}

export interface CallOptions {
  /** Ends a wait early. */
  signal?: AbortSignal;
}

/**
 * The store, wherever it lives: the SQLite store and the HTTP client both are one.
 * A refusal throws `StoreRequestError`; a store that cannot be reached throws `AglError("store")`.
 */
export interface StoreApi {
  enqueueRollouts(requests: EnqueueRolloutRequest[]): Promise<Rollout[]>;
  dequeueRollouts(request: DequeueRequest, options?: CallOptions): Promise<AttemptedRollout[]>;
  startRollout(request: StartRolloutRequest): Promise<AttemptedRollout>;
  startAttempt(rolloutId: string, workerId?: string | null): Promise<AttemptedRollout>;

  queryRollouts(query: RolloutQuery): Promise<Page<Rollout | AttemptedRollout>>;
  getRollout(rolloutId: string): Promise<Rollout | AttemptedRollout | null>;
  updateRollout(rolloutId: string, patch: RolloutPatch): Promise<Rollout>;
  waitForRollouts(request: WaitRequest, options?: CallOptions): Promise<Rollout[]>;

  queryAttempts(rolloutId: string, paging?: Paging): Promise<Page<Attempt>>;
  getLatestAttempt(rolloutId: string): Promise<Attempt | null>;
  /** `attemptId` may be `"latest"`. */
  updateAttempt(rolloutId: string, attemptId: string, patch: AttemptPatch): Promise<Attempt>;

  queryResources(query: ResourcesQuery): Promise<Page<ResourcesUpdate>>;
  addResources(resources: NamedResources): Promise<ResourcesUpdate>;
  updateResources(resourcesId: string, resources: NamedResources): Promise<ResourcesUpdate>;
  getResources(resourcesId: string): Promise<ResourcesUpdate | null>;
  getLatestResources(): Promise<ResourcesUpdate | null>;

  /** Null when a span with the same (rollout, attempt, span id) is already stored: the first write wins. */
  addSpan(span: Span): Promise<Span | null>;
  /** One grouped write. */
  addSpans(spans: Span[]): Promise<SpanBatchResult>;
  querySpans(query: SpanQuery): Promise<Page<Span>>;
  /** Next number of the rollout's counter, from 1. */
  nextSequenceId(rolloutId: string, attemptId: string): Promise<number>;
  /** An extension of ours: the same for many spans in one write, in the order of the requests. */
  nextSequenceIds(requests: NumberRequest[]): Promise<SequenceNumber[]>;

  queryWorkers(query: WorkerQuery): Promise<Page<Worker>>;
  getWorker(workerId: string): Promise<Worker | null>;
  /** A heartbeat. */
  updateWorker(workerId: string, heartbeatStats?: JsonObject): Promise<Worker>;

  statistics(): Promise<Statistics>;
}
