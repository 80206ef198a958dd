import * as v from "valibot";
import { attributesSchema } from "./attributes.ts";
import { statusCodes } from "./enums.ts";
import type { Span } from "./types.ts";
import {
  wireInteger,
  wireList,
  wireLooseObject,
  wireNumberOrNull,
  wireObject,
  wireRecord,
} from "./wire-values.ts";

const nullableText = v.nullable(v.string());

/** Unknown members are kept on spans and their parts, but not on the span's resource (D-3). */
const contextSchema = wireLooseObject({
  trace_id: v.string(),
  span_id: v.string(),
  is_remote: v.boolean(),
  trace_state: wireRecord(v.string()),
});

/** E-21: every member is required, also when it is null; D-10 names the three defaults. */
export const spanSchema = wireLooseObject({
  rollout_id: v.string(),
  attempt_id: v.string(),
  sequence_id: wireInteger,
  trace_id: v.string(),
  span_id: v.string(),
  parent_id: nullableText,
  name: v.string(),
  status: wireLooseObject({
    status_code: v.picklist(statusCodes),
    description: v.optional(nullableText, null),
  }),
  attributes: attributesSchema,
  events: v.array(
    wireLooseObject({
      name: v.string(),
      attributes: attributesSchema,
      timestamp: v.optional(wireNumberOrNull, null),
    }),
  ),
  links: v.array(
    wireLooseObject({
      context: contextSchema,
      attributes: v.optional(v.nullable(attributesSchema), null),
    }),
  ),
  start_time: wireNumberOrNull,
  end_time: wireNumberOrNull,
  context: v.nullable(contextSchema),
  parent: v.nullable(contextSchema),
  resource: wireObject({ attributes: attributesSchema, schema_url: v.string() }),
}) satisfies v.GenericSchema<unknown, Span>;

/** Each span of a batch is judged on its own. */
export const spanBatchSchema = wireObject({ spans: wireList(v.unknown()) });
