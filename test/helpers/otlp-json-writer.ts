import type { OtlpValue, WrittenSpan } from "./protobuf-writer.ts";

/** What `otlpRequest` writes as protobuf, as an object in OTLP's JSON mapping: 64-bit numbers as text, bytes in base64. */
export function otlpJsonRequest(resource: [string, OtlpValue][], spans: WrittenSpan[], schemaUrl = "") {
  return {
    resourceSpans: [
      {
        resource: { attributes: resource.map(keyValue) },
        scopeSpans: [{ scope: { name: "a scope" }, spans: spans.map(spanMembers) }],
        schemaUrl,
      },
    ],
  };
}

export function jsonBytes(value: unknown): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value));
}

function spanMembers(span: WrittenSpan) {
  return {
    traceId: (span.traceId ?? new Uint8Array(16).fill(10)).toHex(),
    spanId: span.spanId.toHex().toUpperCase(),
    traceState: "a=b",
    ...(span.parentId === undefined ? {} : { parentSpanId: span.parentId.toHex() }),
    name: span.name ?? "n0",
    kind: 1,
    startTimeUnixNano: String(span.start ?? 1_700_000_000_123_456_700n),
    endTimeUnixNano: String(span.end ?? 1_700_000_001_123_456_700n),
    attributes: span.attributes?.map(keyValue),
    events: span.events?.map(({ name, time, attributes }) => ({
      name,
      timeUnixNano: String(time),
      attributes: attributes.map(keyValue),
    })),
    links: span.links?.map(({ traceId, spanId, attributes }) => ({
      traceId: traceId.toHex(),
      spanId: spanId.toHex(),
      attributes: attributes.map(keyValue),
    })),
    status: span.status,
  };
}

function keyValue([key, value]: [string, OtlpValue]): object {
  return { key, value: anyValue(value) };
}

function anyValue(value: OtlpValue): object {
  if (value === null) return {};
  if (typeof value === "string") return { stringValue: value };
  if (typeof value === "boolean") return { boolValue: value };
  if (typeof value === "bigint") return { intValue: String(value) };
  if (typeof value === "number") {
    return { doubleValue: Number.isFinite(value) && !Object.is(value, -0) ? value : doubleText(value) };
  }
  if (value instanceof Uint8Array) return { bytesValue: value.toBase64() };
  if (Array.isArray(value)) return { arrayValue: { values: value.map(anyValue) } };
  return { kvlistValue: { values: [...value].map(keyValue) } };
}

function doubleText(value: number): string {
  return Object.is(value, -0) ? "-0" : String(value);
}
