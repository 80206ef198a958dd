import type { AttemptStatus, Mode, RolloutStatus, StatusCode, WorkerStatus } from "./enums.ts";

/**
 * The objects of the store's wire, member for member as agentlightning 0.3.0 sends them.
 * Times are Unix seconds as floating point numbers.
 */

export type JsonObject = { [name: string]: unknown };

export interface RolloutConfig {
  /** Limit since the attempt's start; null = none. */
  timeout_seconds: number | null;
  /** Limit since the attempt's last heartbeat; null = none. */
  unresponsive_seconds: number | null;
  max_attempts: number;
  retry_condition: AttemptStatus[];
}

export interface Rollout {
  rollout_id: string;
  input: unknown;
  start_time: number;
  end_time: number | null;
  mode: Mode | null;
  resources_id: string | null;
  status: RolloutStatus;
  config: RolloutConfig;
  metadata: JsonObject | null;
}

export interface Attempt {
  rollout_id: string;
  attempt_id: string;
  /** Position among the rollout's attempts, from 1. */
  sequence_id: number;
  start_time: number;
  end_time: number | null;
  status: AttemptStatus;
  worker_id: string | null;
  last_heartbeat_time: number | null;
  metadata: JsonObject | null;
}

export type AttemptedRollout = Rollout & { attempt: Attempt };

export interface LlmResource {
  resource_type: "llm" | "proxy_llm";
  endpoint: string;
  model: string;
  api_key: string | null;
  sampling_parameters: JsonObject;
}

export interface PromptTemplateResource {
  resource_type: "prompt_template";
  template: string;
  engine: "jinja" | "f-string" | "poml";
}

export type Resource = LlmResource | PromptTemplateResource;
export type NamedResources = { [name: string]: Resource };

export interface ResourcesUpdate {
  resources_id: string;
  create_time: number;
  update_time: number;
  version: number;
  resources: NamedResources;
}

export type AttributeValue = string | number | boolean | string[] | number[] | boolean[];
export type Attributes = { [key: string]: AttributeValue };

export interface SpanContext {
  trace_id: string;
  span_id: string;
  is_remote: boolean;
  trace_state: { [key: string]: string };
  [extra: string]: unknown;
}

export interface SpanStatus {
  status_code: StatusCode;
  description: string | null;
  [extra: string]: unknown;
}

export interface SpanEvent {
  name: string;
  attributes: Attributes;
  timestamp: number | null;
  [extra: string]: unknown;
}

export interface SpanLink {
  context: SpanContext;
  attributes: Attributes | null;
  [extra: string]: unknown;
}

export interface Span {
  rollout_id: string;
  attempt_id: string;
  /** Orders spans inside a rollout; not unique: all spans of one proxied call share one. */
  sequence_id: number;
  trace_id: string;
  span_id: string;
  parent_id: string | null;
  name: string;
  status: SpanStatus;
  attributes: Attributes;
  events: SpanEvent[];
  links: SpanLink[];
  start_time: number | null;
  end_time: number | null;
  context: SpanContext | null;
  parent: SpanContext | null;
  resource: { attributes: Attributes; schema_url: string };
  [extra: string]: unknown;
}

export interface Worker {
  worker_id: string;
  status: WorkerStatus;
  heartbeat_stats: JsonObject | null;
  last_heartbeat_time: number | null;
  last_dequeue_time: number | null;
  last_busy_time: number | null;
  last_idle_time: number | null;
  current_rollout_id: string | null;
  current_attempt_id: string | null;
}

export interface Page<Item> {
  items: Item[];
  limit: number;
  offset: number;
  /** All matches before pagination. */
  total: number;
}

export interface Statistics {
  name: string;
  total_rollouts: number;
  total_attempts: number;
  total_spans: number;
  total_resources: number;
  total_workers: number;
  uptime: number;
}
