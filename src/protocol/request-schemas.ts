import * as v from "valibot";
import { attemptStatuses, modes, rolloutStatuses, workerStatuses } from "./enums.ts";
import {
  opaqueObject,
  wireInteger,
  wireList,
  wireNumber,
  wireNumberOrNull,
  wireObject,
} from "./wire-values.ts";

const text = v.string();
const nullableText = v.nullish(text);

/** Characters of a text that others are searched for; names and ids are shorter. */
const maxFilterLength = 1_000;

const filterText = v.nullish(
  v.pipe(text, v.maxLength(maxFilterLength, `String should have at most ${maxFilterLength} characters`)),
);

export const configSchema = wireObject({
  timeout_seconds: v.optional(wireNumberOrNull),
  unresponsive_seconds: v.optional(wireNumberOrNull),
  max_attempts: v.optional(v.pipe(wireInteger, v.minValue(1, "Input should be greater than or equal to 1"))),
  retry_condition: v.optional(v.array(v.picklist(attemptStatuses))),
});

const newRollout = {
  input: v.unknown(),
  mode: v.nullish(v.picklist(modes)),
  resources_id: nullableText,
  config: v.nullish(configSchema),
  metadata: v.nullish(opaqueObject),
};

export const enqueueSchema = wireObject({ rollouts: wireList(wireObject(newRollout)) });

export const startRolloutSchema = wireObject({ ...newRollout, worker_id: nullableText });

export const startAttemptSchema = v.nullish(wireObject({ worker_id: nullableText }), {});

const waitSeconds = v.optional(
  v.pipe(wireNumber, v.minValue(0, "Input should be greater than or equal to 0")),
);

export const dequeueSchema = v.nullish(
  wireObject({ limit: v.optional(wireInteger), worker_id: nullableText, wait_seconds: waitSeconds }),
  {},
);

export const waitSchema = wireObject({
  rollout_ids: wireList(text),
  timeout: v.optional(wireNumberOrNull),
  wait_seconds: waitSeconds,
});

/** Null is let through where it is refused with a sentence later (E-12, E-15). */
export const rolloutPatchSchema = wireObject({
  input: v.optional(v.unknown()),
  mode: v.nullish(v.picklist(modes)),
  resources_id: nullableText,
  status: v.nullish(v.picklist(rolloutStatuses)),
  config: v.nullish(configSchema),
  metadata: v.nullish(opaqueObject),
});

export const attemptPatchSchema = wireObject({
  status: v.nullish(v.picklist(attemptStatuses)),
  worker_id: nullableText,
  last_heartbeat_time: v.nullish(wireNumber),
  metadata: v.nullish(opaqueObject),
});

const paging = {
  sort_by: nullableText,
  sort_order: v.optional(v.picklist(["asc", "desc"])),
  limit: v.optional(wireInteger),
  offset: v.optional(wireInteger),
};

const filterLogic = v.optional(v.picklist(["and", "or"]));

export const rolloutQuerySchema = wireObject({
  ...paging,
  status_in: v.nullish(wireList(v.picklist(rolloutStatuses))),
  rollout_id_in: v.nullish(wireList(text)),
  rollout_id_contains: filterText,
  mode_in: v.nullish(wireList(v.picklist(modes))),
  filter_logic: filterLogic,
});

export const attemptQuerySchema = wireObject(paging);

export const resourcesQuerySchema = wireObject({
  ...paging,
  resources_id: nullableText,
  resources_id_contains: filterText,
});

export const spanQuerySchema = wireObject({
  ...paging,
  rollout_id: text,
  attempt_id: nullableText,
  trace_id: nullableText,
  trace_id_contains: filterText,
  span_id: nullableText,
  span_id_contains: filterText,
  parent_id: nullableText,
  parent_id_contains: filterText,
  name: nullableText,
  name_contains: filterText,
  filter_logic: filterLogic,
});

export const workerQuerySchema = wireObject({
  ...paging,
  status_in: v.nullish(wireList(v.picklist(workerStatuses))),
  worker_id_contains: filterText,
  filter_logic: filterLogic,
});

export const nextSequenceSchema = wireObject({ rollout_id: text, attempt_id: text });

export const nextSequencesSchema = wireObject({ spans: wireList(nextSequenceSchema) });

export const heartbeatSchema = v.nullish(wireObject({ heartbeat_stats: v.nullish(opaqueObject) }), {});
