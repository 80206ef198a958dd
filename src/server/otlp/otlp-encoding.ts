import { readOtlpJson } from "./otlp-json.ts";
import { readOtlpProtobuf } from "./otlp-protobuf.ts";
import type { ReceivedSpan } from "./otlp-span.ts";
import { bytesField, joined, varintField } from "./protobuf-writer.ts";

/** Spans that the store did not take, while it took the request. */
export interface PartialSuccess {
  rejectedSpans: number;
  errorMessage: string;
}

/** One of the two forms in which OTLP's messages travel; the answer has the form of its request. */
export interface OtlpEncoding {
  contentType: string;
  read(body: Uint8Array): ReceivedSpan[];
  /** An `ExportTraceServiceResponse`. */
  response(partial: PartialSuccess | null): Uint8Array;
  /** A `google.rpc.Status` with its message only. */
  status(message: string): Uint8Array;
}

export const protobufEncoding: OtlpEncoding = {
  contentType: "application/x-protobuf",
  read: (body) => readOtlpProtobuf(body),
  response(partial) {
    if (partial === null) return new Uint8Array();
    const fields = [varintField(1, partial.rejectedSpans), bytesField(2, partial.errorMessage)];
    return bytesField(1, joined(fields));
  },
  status: (message) => bytesField(2, message),
};

const jsonEncoding: OtlpEncoding = {
  contentType: "application/json",
  read: (body) => readOtlpJson(body),
  response(partial) {
    if (partial === null) return jsonBytes({});
    // 64-bit integers are text in protobuf's JSON.
    return jsonBytes({ partialSuccess: { ...partial, rejectedSpans: String(partial.rejectedSpans) } });
  },
  status: (message) => jsonBytes({ message }),
};

export const otlpEncodings: readonly OtlpEncoding[] = [protobufEncoding, jsonEncoding];

function jsonBytes(value: unknown): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value));
}
