import type { Attributes, Span } from "../../protocol/types.ts";
import {
  type OtlpEvent,
  type OtlpLink,
  type OtlpSpan,
  type OtlpStatus,
  type ReceivedSpan,
  receivedSpan,
} from "./otlp-span.ts";
import { readKeyValue } from "./otlp-protobuf-values.ts";
import { attributesOf, type OtlpKeyValue } from "./otlp-values.ts";
import type { MessageBudget } from "./payload-error.ts";
import { ProtobufReader } from "./protobuf-reader.ts";

/** A binary `ExportTraceServiceRequest`, in the order in which its spans appear. */
export function readOtlpProtobuf(bytes: Uint8Array, budget?: MessageBudget): ReceivedSpan[] {
  const spans: ReceivedSpan[] = [];
  const reader = new ProtobufReader(bytes, budget);
  for (let field = reader.next(); field !== null; field = reader.next()) {
    if (field === 1) for (const span of readResourceSpans(reader.message())) spans.push(span);
    else reader.skip();
  }
  return spans;
}

function readResourceSpans(reader: ProtobufReader): ReceivedSpan[] {
  const resource = { attributes: {} as Attributes, schema_url: "" };
  const scopes: ProtobufReader[] = [];
  for (let field = reader.next(); field !== null; field = reader.next()) {
    if (field === 1) resource.attributes = attributesOf(readKeyValues(reader.message(), 1));
    else if (field === 2) scopes.push(reader.message());
    else if (field === 3) resource.schema_url = reader.text();
    else reader.skip();
  }
  return scopes.flatMap((scope) => readScopeSpans(scope, resource));
}

function readScopeSpans(reader: ProtobufReader, resource: Span["resource"]): ReceivedSpan[] {
  const spans: ReceivedSpan[] = [];
  for (let field = reader.next(); field !== null; field = reader.next()) {
    if (field === 2) spans.push(receivedSpan(readSpan(reader.message()), resource));
    else reader.skip();
  }
  return spans;
}

function readSpan(reader: ProtobufReader): OtlpSpan {
  const span: OtlpSpan = {
    traceId: "",
    spanId: "",
    parentSpanId: "",
    name: "",
    startTimeUnixNano: 0n,
    endTimeUnixNano: 0n,
    attributes: [],
    events: [],
    links: [],
    status: { message: "", code: 0 },
  };
  for (let field = reader.next(); field !== null; field = reader.next()) {
    if (field === 1) span.traceId = reader.bytes().toHex();
    else if (field === 2) span.spanId = reader.bytes().toHex();
    else if (field === 4) span.parentSpanId = reader.bytes().toHex();
    else if (field === 5) span.name = reader.text();
    else if (field === 7) span.startTimeUnixNano = reader.fixed64();
    else if (field === 8) span.endTimeUnixNano = reader.fixed64();
    else if (field === 9) span.attributes.push(readKeyValue(reader.message()));
    else if (field === 11) span.events.push(readEvent(reader.message()));
    else if (field === 13) span.links.push(readLink(reader.message()));
    else if (field === 15) span.status = readStatus(reader.message());
    else reader.skip();
  }
  return span;
}

function readEvent(reader: ProtobufReader): OtlpEvent {
  const event: OtlpEvent = { timeUnixNano: 0n, name: "", attributes: [] };
  for (let field = reader.next(); field !== null; field = reader.next()) {
    if (field === 1) event.timeUnixNano = reader.fixed64();
    else if (field === 2) event.name = reader.text();
    else if (field === 3) event.attributes.push(readKeyValue(reader.message()));
    else reader.skip();
  }
  return event;
}

function readLink(reader: ProtobufReader): OtlpLink {
  const link: OtlpLink = { traceId: "", spanId: "", attributes: [] };
  for (let field = reader.next(); field !== null; field = reader.next()) {
    if (field === 1) link.traceId = reader.bytes().toHex();
    else if (field === 2) link.spanId = reader.bytes().toHex();
    else if (field === 4) link.attributes.push(readKeyValue(reader.message()));
    else reader.skip();
  }
  return link;
}

function readStatus(reader: ProtobufReader): OtlpStatus {
  const status: OtlpStatus = { message: "", code: 0 };
  for (let field = reader.next(); field !== null; field = reader.next()) {
    if (field === 2) status.message = reader.text();
    else if (field === 3) status.code = Number(reader.unsigned());
    else reader.skip();
  }
  return status;
}

/** The `KeyValue`s that are one field of a message. */
function readKeyValues(reader: ProtobufReader, number: number): OtlpKeyValue[] {
  const entries: OtlpKeyValue[] = [];
  for (let field = reader.next(); field !== null; field = reader.next()) {
    if (field === number) entries.push(readKeyValue(reader.message()));
    else reader.skip();
  }
  return entries;
}
