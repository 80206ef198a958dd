import type { Span, SpanContext, SpanEvent, SpanLink } from "../../protocol/types.ts";
import { attributesOf, type OtlpKeyValue } from "./otlp-values.ts";

/** What both encodings of OTLP say about a span; ids as hex, empty where they are not set. */
export interface OtlpSpan {
  traceId: string;
  spanId: string;
  parentSpanId: string;
  name: string;
  startTimeUnixNano: bigint;
  endTimeUnixNano: bigint;
  attributes: OtlpKeyValue[];
  events: OtlpEvent[];
  links: OtlpLink[];
  status: OtlpStatus;
}

export interface OtlpEvent {
  timeUnixNano: bigint;
  name: string;
  attributes: OtlpKeyValue[];
}

export interface OtlpLink {
  traceId: string;
  spanId: string;
  attributes: OtlpKeyValue[];
}

export interface OtlpStatus {
  message: string;
  code: number;
}

/** A span that does not know yet whose it is. */
export type ReceivedSpan = Pick<
  Span,
  | "trace_id"
  | "span_id"
  | "parent_id"
  | "name"
  | "status"
  | "attributes"
  | "events"
  | "links"
  | "start_time"
  | "end_time"
  | "context"
  | "parent"
  | "resource"
>;

/** The span as the store keeps it (section 7.3 of the protocol). */
export function receivedSpan(span: OtlpSpan, resource: Span["resource"]): ReceivedSpan {
  const context = contextOf(span);
  return {
    trace_id: context.trace_id,
    span_id: context.span_id,
    parent_id: span.parentSpanId === "" ? null : spanId(span.parentSpanId),
    name: span.name,
    status: {
      status_code: statusCodes[span.status.code] ?? "UNSET",
      description: span.status.message === "" ? null : span.status.message,
    },
    attributes: attributesOf(span.attributes),
    events: span.events.map(eventOf),
    links: span.links.map(linkOf),
    start_time: secondsOf(span.startTimeUnixNano),
    end_time: secondsOf(span.endTimeUnixNano),
    context,
    // Only its id is known.
    parent: null,
    resource,
  };
}

const statusCodes = ["UNSET", "OK", "ERROR"] as const;

function eventOf({ name, attributes, timeUnixNano }: OtlpEvent): SpanEvent {
  return { name, attributes: attributesOf(attributes), timestamp: secondsOf(timeUnixNano) };
}

function linkOf(link: OtlpLink): SpanLink {
  const attributes = link.attributes.length === 0 ? null : attributesOf(link.attributes);
  return { context: contextOf(link), attributes };
}

function contextOf(ids: { traceId: string; spanId: string }): SpanContext {
  const trace_id = ids.traceId.padStart(32, "0");
  return { trace_id, span_id: spanId(ids.spanId), is_remote: false, trace_state: {} };
}

function spanId(hex: string): string {
  return hex.padStart(16, "0");
}

/** Some exporters give seconds where nanoseconds belong: a value that small is taken as it is. */
function secondsOf(nanoseconds: bigint): number | null {
  const value = Number(nanoseconds);
  if (value === 0) return null;
  return value <= 1e12 ? value : value / 1e9;
}
