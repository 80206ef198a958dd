import type { Context } from "hono";
import type { Logger } from "../../log.ts";
import { attributeKeys } from "../../protocol/semconv.ts";
import type { StoreApi } from "../../protocol/store-api.ts";
import { unpackBody } from "../content-encoding.ts";
import { failureOf, type Failure } from "../failure.ts";
import { type OtlpEncoding, otlpEncodings, protobufEncoding } from "./otlp-encoding.ts";
import { type OtlpOutcome, storeReceivedSpans } from "./otlp-intake.ts";
import { PayloadError } from "./payload-error.ts";
import { readBytes } from "../request-body.ts";

const maxMessageLength = 1_000;

/** `POST /v1/traces`: OTLP over HTTP. Exporters repeat 5xx, so a fault of theirs is a 4xx. */
export function otlpTraces(context: { store: StoreApi; maxBodyBytes: number; log: Logger }) {
  const { store, maxBodyBytes, log } = context;
  return async (c: Context): Promise<Response> => {
    const type = (c.req.header("content-type") ?? "").split(";")[0]!.trim();
    const encoding = otlpEncodings.find(({ contentType }) => contentType === type);
    try {
      if (encoding === undefined) throw unknownType(type);
      const body = await readBytes(c, maxBodyBytes);
      const unpacked = unpackBody(body, c.req.header("content-encoding"), maxBodyBytes);
      const outcome = await storeReceivedSpans(store, encoding.read(unpacked));
      return answerOutcome(c, encoding, outcome, log);
    } catch (error) {
      const { status, detail } = failureOf(error, { path: c.req.path, log });
      return refuse(c, encoding ?? protobufEncoding, status, String(detail));
    }
  };
}

function unknownType(type: string): PayloadError {
  const types = otlpEncodings.map(({ contentType }) => contentType).join(" or ");
  return new PayloadError(`content type ${type || "missing"}: send ${types}`);
}

/** What went wrong with some spans is told with the success, as long as others are stored. */
function answerOutcome(c: Context, encoding: OtlpEncoding, outcome: OtlpOutcome, log: Logger): Response {
  const { taken, unattributed, refusals } = outcome;
  const rejectedSpans = unattributed + refusals.length;
  if (rejectedSpans === 0) return answer(c, encoding, 200, encoding.response(null));
  const errorMessage = describe(outcome);
  log.warning("received spans are not stored", { spans: rejectedSpans, taken, reason: errorMessage });
  // Spans of no attempt are usual: tracers also work outside of one.
  if (taken === 0 && refusals.length > 0) return refuse(c, encoding, 400, errorMessage);
  return answer(c, encoding, 200, encoding.response({ rejectedSpans, errorMessage }));
}

function describe({ unattributed, refusals }: OtlpOutcome): string {
  const { rolloutId, attemptId } = attributeKeys;
  const parts = [
    ...(refusals.length > 0 ? [`${refusals.length} spans refused: ${refusals[0]}`] : []),
    ...(unattributed > 0 ? [`${unattributed} spans name no ${rolloutId} and ${attemptId}`] : []),
  ];
  return parts.join("; ").slice(0, maxMessageLength);
}

function refuse(c: Context, encoding: OtlpEncoding, status: Failure["status"], message: string): Response {
  return answer(c, encoding, status, encoding.status(message.slice(0, maxMessageLength)));
}

function answer(c: Context, encoding: OtlpEncoding, status: 200 | Failure["status"], body: Uint8Array) {
  const accepted = (c.req.header("accept-encoding") ?? "")
    .split(",")
    .map((item) => item.split(";")[0]!.trim());
  const headers = { "content-type": encoding.contentType };
  const bytes = body as Uint8Array<ArrayBuffer>;
  if (!accepted.includes("gzip")) return c.body(bytes, status, headers);
  return c.body(Bun.gzipSync(bytes), status, { ...headers, "content-encoding": "gzip" });
}
