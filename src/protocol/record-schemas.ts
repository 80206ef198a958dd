import * as v from "valibot";
import { attemptStatuses, modes, rolloutStatuses, workerStatuses } from "./enums.ts";
import { resourcesSchema } from "./resource-schema.ts";
import { spanSchema } from "./span-schema.ts";
import type { RecordKind } from "./store-record.ts";
import { opaqueObject, wireInteger, wireNumber, wireNumberOrNull, wireObject } from "./wire-values.ts";

const id = v.pipe(v.string(), v.nonEmpty("Input should be a text that is not empty"));
const nullableText = v.nullable(v.string());
const nullableObject = v.nullable(opaqueObject);
const fromOne = v.pipe(wireInteger, v.minValue(1, "Input should be greater than or equal to 1"));

/** As the store sends it: every member is required, also when it is null. */
const attemptSchema = wireObject({
  rollout_id: id,
  attempt_id: id,
  sequence_id: fromOne,
  start_time: wireNumber,
  end_time: wireNumberOrNull,
  status: v.picklist(attemptStatuses),
  worker_id: nullableText,
  last_heartbeat_time: wireNumberOrNull,
  metadata: nullableObject,
});

const configSchema = wireObject({
  timeout_seconds: wireNumberOrNull,
  unresponsive_seconds: wireNumberOrNull,
  max_attempts: fromOne,
  retry_condition: v.array(v.picklist(attemptStatuses)),
});

/** Whole objects of a store, as they are exported. */
export const recordSchemas = {
  resources: wireObject({
    resources_id: id,
    create_time: wireNumber,
    update_time: wireNumber,
    version: fromOne,
    resources: resourcesSchema,
  }),
  rollout: wireObject({
    rollout_id: id,
    input: v.unknown(),
    start_time: wireNumber,
    end_time: wireNumberOrNull,
    mode: v.nullable(v.picklist(modes)),
    resources_id: nullableText,
    status: v.picklist(rolloutStatuses),
    config: configSchema,
    metadata: nullableObject,
    /** The latest, where a store sends it along. */
    attempt: v.optional(attemptSchema),
  }),
  attempt: attemptSchema,
  span: spanSchema,
  worker: wireObject({
    worker_id: id,
    status: v.picklist(workerStatuses),
    heartbeat_stats: nullableObject,
    last_heartbeat_time: wireNumberOrNull,
    last_dequeue_time: wireNumberOrNull,
    last_busy_time: wireNumberOrNull,
    last_idle_time: wireNumberOrNull,
    current_rollout_id: nullableText,
    current_attempt_id: nullableText,
  }),
} as const satisfies Record<RecordKind, v.GenericSchema>;
