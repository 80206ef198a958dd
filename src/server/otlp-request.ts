import type { Attributes, Span, SpanContext, SpanEvent, SpanLink, SpanStatus } from "../protocol/types.ts";
import { OtlpAttributes } from "./otlp-values.ts";
import { ProtobufReader } from "./protobuf-reader.ts";

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

/** An `ExportTraceServiceRequest`, in the order in which its spans appear (section 7.3 of the protocol). */
export function readOtlpRequest(bytes: Uint8Array): ReceivedSpan[] {
  const spans: ReceivedSpan[] = [];
  const reader = new ProtobufReader(bytes);
  for (let field = reader.next(); field !== null; field = reader.next()) {
    if (field === 1) spans.push(...readResourceSpans(reader.message()));
    else reader.skip();
  }
  return spans;
}

function readResourceSpans(reader: ProtobufReader): ReceivedSpan[] {
  const resource = { attributes: {} as Attributes, schema_url: "" };
  const scopes: ProtobufReader[] = [];
  for (let field = reader.next(); field !== null; field = reader.next()) {
    if (field === 1) resource.attributes = readAttributes(reader.message(), 1);
    else if (field === 2) scopes.push(reader.message());
    else if (field === 3) resource.schema_url = reader.text();
    else reader.skip();
  }
  return scopes.flatMap((scope) => readScopeSpans(scope, resource));
}

function readScopeSpans(reader: ProtobufReader, resource: Span["resource"]): ReceivedSpan[] {
  const spans: ReceivedSpan[] = [];
  for (let field = reader.next(); field !== null; field = reader.next()) {
    if (field === 2) spans.push(readSpan(reader.message(), resource));
    else reader.skip();
  }
  return spans;
}

function readSpan(reader: ProtobufReader, resource: Span["resource"]): ReceivedSpan {
  const attributes = new OtlpAttributes();
  const events: SpanEvent[] = [];
  const links: SpanLink[] = [];
  let [traceId, spanId, parentId, name] = [hexId(null, 16), hexId(null, 8), null as string | null, ""];
  let status: SpanStatus = { status_code: "UNSET", description: null };
  let [startTime, endTime] = [null as number | null, null as number | null];
  for (let field = reader.next(); field !== null; field = reader.next()) {
    if (field === 1) traceId = hexId(reader.bytes(), 16);
    else if (field === 2) spanId = hexId(reader.bytes(), 8);
    else if (field === 4) parentId = parentOf(reader.bytes());
    else if (field === 5) name = reader.text();
    else if (field === 7) startTime = secondsOf(reader.fixed64());
    else if (field === 8) endTime = secondsOf(reader.fixed64());
    else if (field === 9) attributes.add(reader.message());
    else if (field === 11) events.push(readEvent(reader.message()));
    else if (field === 13) links.push(readLink(reader.message()));
    else if (field === 15) status = readStatus(reader.message());
    else reader.skip();
  }
  return {
    trace_id: traceId,
    span_id: spanId,
    parent_id: parentId,
    name,
    status,
    attributes: attributes.values,
    events,
    links,
    start_time: startTime,
    end_time: endTime,
    context: contextOf(traceId, spanId),
    // Only its id is known.
    parent: null,
    resource,
  };
}

function readEvent(reader: ProtobufReader): SpanEvent {
  const attributes = new OtlpAttributes();
  let [name, timestamp] = ["", null as number | null];
  for (let field = reader.next(); field !== null; field = reader.next()) {
    if (field === 1) timestamp = secondsOf(reader.fixed64());
    else if (field === 2) name = reader.text();
    else if (field === 3) attributes.add(reader.message());
    else reader.skip();
  }
  return { name, attributes: attributes.values, timestamp };
}

function readLink(reader: ProtobufReader): SpanLink {
  const attributes = new OtlpAttributes();
  let [traceId, spanId] = [hexId(null, 16), hexId(null, 8)];
  for (let field = reader.next(); field !== null; field = reader.next()) {
    if (field === 1) traceId = hexId(reader.bytes(), 16);
    else if (field === 2) spanId = hexId(reader.bytes(), 8);
    else if (field === 4) attributes.add(reader.message());
    else reader.skip();
  }
  return {
    context: contextOf(traceId, spanId),
    attributes: attributes.isEmpty ? null : attributes.values,
  };
}

const statusCodes = ["UNSET", "OK", "ERROR"] as const;

function readStatus(reader: ProtobufReader): SpanStatus {
  let [message, code] = ["", 0];
  for (let field = reader.next(); field !== null; field = reader.next()) {
    if (field === 2) message = reader.text();
    else if (field === 3) code = Number(reader.unsigned());
    else reader.skip();
  }
  return { status_code: statusCodes[code] ?? "UNSET", description: message === "" ? null : message };
}

/** The `KeyValue`s that are one field of a message. */
function readAttributes(reader: ProtobufReader, number: number): Attributes {
  const attributes = new OtlpAttributes();
  for (let field = reader.next(); field !== null; field = reader.next()) {
    if (field === number) attributes.add(reader.message());
    else reader.skip();
  }
  return attributes.values;
}

function contextOf(trace_id: string, span_id: string): SpanContext {
  return { trace_id, span_id, is_remote: false, trace_state: {} };
}

function hexId(bytes: Uint8Array | null, length: number): string {
  return (bytes?.toHex() ?? "").padStart(length * 2, "0");
}

function parentOf(bytes: Uint8Array): string | null {
  return bytes.length === 0 ? null : hexId(bytes, 8);
}

/** Some exporters give seconds where nanoseconds belong: a value that small is taken as it is. */
function secondsOf(nanoseconds: bigint): number | null {
  const value = Number(nanoseconds);
  if (value === 0) return null;
  return value <= 1e12 ? value : value / 1e9;
}
