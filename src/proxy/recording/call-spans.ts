import { attributeKeys, spanNames } from "../../protocol/semconv.ts";
import type { Attributes, Span, SpanContext, SpanEvent } from "../../protocol/types.ts";
import type { CallRecord } from "./call-record.ts";
import { inexactCallReason } from "./inexact-call.ts";
import { litellmAttributes } from "./litellm-attributes.ts";
import { rawAttributes } from "./raw-attributes.ts";

/**
 * The spans of one call, in the shape agentlightning 0.3.0 reads: a root, the normalised call, and, when the
 * server answered, the verbatim one. All share the call's sequence id.
 */
export function callSpans(record: CallRecord): Span[] {
  const ours = ownAttributes(record);
  const root = makeSpan(record, spanNames.proxyRequest, null, {});
  const litellm = makeSpan(record, spanNames.litellmRequest, root, { ...litellmAttributes(record), ...ours });
  if (record.failure !== null) litellm.events.push(exceptionEvent(record, record.failure));
  if (record.answerText === null || record.failure !== null) return [root, litellm];
  return [root, litellm, makeSpan(record, spanNames.rawRequest, root, { ...rawAttributes(record), ...ours })];
}

function ownAttributes(record: CallRecord): Attributes {
  const reason = inexactCallReason(record);
  return {
    [attributeKeys.checkpoint]: record.upstream.checkpoint,
    [attributeKeys.streamed]: record.request.streamed,
    [attributeKeys.tokenExact]: reason === null,
    ...(reason === null ? {} : { [attributeKeys.inexactReason]: reason }),
    ...(record.abortedByClient ? { [attributeKeys.aborted]: true } : {}),
    ...(record.identity.stale ? { [attributeKeys.stale]: true } : {}),
    ...(record.identity.retry > 0 ? { [attributeKeys.retry]: record.identity.retry } : {}),
  };
}

function makeSpan(record: CallRecord, name: string, parent: Span | null, attributes: Attributes): Span {
  const { rolloutId, attemptId, sequenceId } = record.identity;
  const trace_id = parent?.trace_id ?? randomHex(16);
  const span_id = randomHex(8);
  return {
    rollout_id: rolloutId,
    attempt_id: attemptId,
    sequence_id: sequenceId,
    trace_id,
    span_id,
    parent_id: parent?.span_id ?? null,
    name,
    status: statusOf(record),
    attributes,
    events: [],
    links: [],
    start_time: record.startTime,
    end_time: record.endTime,
    context: spanContext(trace_id, span_id),
    parent: parent === null ? null : spanContext(parent.trace_id, parent.span_id),
    resource: {
      attributes: {
        "service.name": "agl",
        [attributeKeys.rolloutId]: rolloutId,
        [attributeKeys.attemptId]: attemptId,
        [attributeKeys.sequenceId]: sequenceId,
      },
      schema_url: "",
    },
  };
}

function statusOf({ failure, abortedByClient }: CallRecord): Span["status"] {
  if (failure !== null) return { status_code: "ERROR", description: failure.message };
  if (abortedByClient) return { status_code: "ERROR", description: "the client went away before the end" };
  return { status_code: "OK", description: null };
}

function exceptionEvent(record: CallRecord, { type, message }: { type: string; message: string }): SpanEvent {
  return {
    name: "exception",
    attributes: { [attributeKeys.exceptionType]: type, [attributeKeys.exceptionMessage]: message },
    timestamp: record.endTime,
  };
}

function spanContext(trace_id: string, span_id: string): SpanContext {
  return { trace_id, span_id, is_remote: false, trace_state: {} };
}

function randomHex(bytes: number): string {
  return crypto.getRandomValues(new Uint8Array(bytes)).toHex();
}
