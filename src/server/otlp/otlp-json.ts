import { JsonMessageError, JsonMessageReader } from "./json-message-reader.ts";
import type { MessageBudget } from "./payload-error.ts";
import {
  type OtlpEvent,
  type OtlpLink,
  type OtlpSpan,
  type OtlpStatus,
  type ReceivedSpan,
  receivedSpan,
} from "./otlp-span.ts";
import {
  attributesOf,
  floatValue,
  integerValue,
  maxValueDepth,
  type OtlpKeyValue,
  type OtlpValue,
} from "./otlp-values.ts";

/** An `ExportTraceServiceRequest` in OTLP's JSON mapping, in the order in which its spans appear. */
export function readOtlpJson(bytes: Uint8Array, budget?: MessageBudget): ReceivedSpan[] {
  return JsonMessageReader.of(bytes, budget).messages("resourceSpans").flatMap(readResourceSpans);
}

function readResourceSpans(json: JsonMessageReader): ReceivedSpan[] {
  const resource = {
    attributes: attributesOf(json.message("resource").messages("attributes").map(readAttribute)),
    schema_url: json.text("schemaUrl"),
  };
  return json
    .messages("scopeSpans")
    .flatMap((scope) => scope.messages("spans").map((span) => receivedSpan(readSpan(span), resource)));
}

function readSpan(json: JsonMessageReader): OtlpSpan {
  return {
    traceId: json.id("traceId"),
    spanId: json.id("spanId"),
    parentSpanId: json.id("parentSpanId"),
    name: json.text("name"),
    startTimeUnixNano: json.unsigned64("startTimeUnixNano"),
    endTimeUnixNano: json.unsigned64("endTimeUnixNano"),
    attributes: json.messages("attributes").map(readAttribute),
    events: json.messages("events").map(readEvent),
    links: json.messages("links").map(readLink),
    status: readStatus(json.message("status")),
  };
}

function readEvent(json: JsonMessageReader): OtlpEvent {
  return {
    timeUnixNano: json.unsigned64("timeUnixNano"),
    name: json.text("name"),
    attributes: json.messages("attributes").map(readAttribute),
  };
}

function readLink(json: JsonMessageReader): OtlpLink {
  return {
    traceId: json.id("traceId"),
    spanId: json.id("spanId"),
    attributes: json.messages("attributes").map(readAttribute),
  };
}

function readStatus(json: JsonMessageReader): OtlpStatus {
  return { message: json.text("message"), code: json.enumeration("code") };
}

function readAttribute(json: JsonMessageReader): OtlpKeyValue {
  return readKeyValue(json, 0);
}

function readKeyValue(json: JsonMessageReader, depth: number): OtlpKeyValue {
  return [json.text("key"), readValue(json.message("value"), depth)];
}

const valueKinds = [
  "stringValue",
  "boolValue",
  "intValue",
  "doubleValue",
  "arrayValue",
  "kvlistValue",
  "bytesValue",
] as const;

function readValue(json: JsonMessageReader, depth: number): OtlpValue {
  if (depth > maxValueDepth) throw new JsonMessageError(`a value is nested more than ${maxValueDepth} deep`);
  const kind = json.only(valueKinds);
  switch (kind) {
    case null:
      return null;
    case "stringValue":
      return json.text(kind);
    case "boolValue":
      return json.truth(kind);
    case "intValue":
      return integerValue(json.signed64(kind));
    case "doubleValue":
      return floatValue(json.double(kind));
    case "bytesValue":
      return json.bytes(kind).toHex();
    case "arrayValue": {
      const items = json.message(kind).messages("values");
      return items.map((item) => readValue(item, depth + 1));
    }
    case "kvlistValue": {
      const entries = json.message(kind).messages("values");
      return new Map(entries.map((entry) => readKeyValue(entry, depth + 1)));
    }
  }
}
