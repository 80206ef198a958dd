import type { Context } from "hono";
import { gunzipSync } from "node:zlib";
import { messageOf } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { StoreApi } from "../protocol/store-api.ts";
import { storeReceivedSpans } from "./otlp-intake.ts";
import { readOtlpRequest, type ReceivedSpan } from "./otlp-request.ts";
import { ProtobufError } from "./protobuf-reader.ts";
import { BodyTooLarge, readBytes } from "./request-body.ts";

const protobuf = "application/x-protobuf";

/** `POST /v1/traces`: OTLP over HTTP, as Python's tracers send it. Exporters repeat 5xx, so a fault of theirs is a 400. */
export function otlpTraces(context: { store: StoreApi; maxBodyBytes: number; log: Logger }) {
  const { store, maxBodyBytes, log } = context;
  return async (c: Context): Promise<Response> => {
    const type = (c.req.header("content-type") ?? "").split(";")[0]!.trim();
    if (type !== protobuf) {
      return answer(c, 400, statusMessage(`content type ${type || "missing"}: send ${protobuf}`));
    }
    let received: ReceivedSpan[];
    try {
      received = readOtlpRequest(unpacked(c, await readBytes(c, maxBodyBytes), maxBodyBytes));
    } catch (error) {
      if (error instanceof BodyTooLarge) throw error;
      const reason = error instanceof ProtobufError ? error.message : `the body: ${messageOf(error)}`;
      return answer(c, 400, statusMessage(`no ExportTraceServiceRequest: ${reason}`));
    }
    const { unattributed, refusals } = await storeReceivedSpans(store, received);
    if (unattributed > 0) {
      log.warning("received spans that name no rollout and attempt are dropped", { spans: unattributed });
    }
    if (refusals.length === 0) return answer(c, 200, new Uint8Array());
    log.warning("the store refused received spans", { spans: refusals.length, detail: refusals[0] });
    return answer(c, 400, statusMessage(`${refusals.length} spans refused: ${refusals[0]}`));
  };
}

function unpacked(c: Context, bytes: Uint8Array, maxOutputLength: number): Uint8Array {
  if (c.req.header("content-encoding")?.trim().toLowerCase() !== "gzip") return bytes;
  try {
    return gunzipSync(bytes, { maxOutputLength });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE")
      throw new BodyTooLarge(maxOutputLength);
    throw error;
  }
}

function answer(c: Context, status: 200 | 400, body: Uint8Array): Response {
  const accepted = (c.req.header("accept-encoding") ?? "")
    .split(",")
    .map((item) => item.split(";")[0]!.trim());
  if (!accepted.includes("gzip"))
    return c.body(body as Uint8Array<ArrayBuffer>, status, { "content-type": protobuf });
  const headers = { "content-type": protobuf, "content-encoding": "gzip" };
  return c.body(Bun.gzipSync(body as Uint8Array<ArrayBuffer>), status, headers);
}

/** A `google.rpc.Status` with a message (field 2) only. */
function statusMessage(message: string): Uint8Array {
  const text = new TextEncoder().encode(message.slice(0, 1_000));
  const length = text.length < 128 ? [text.length] : [(text.length & 0x7f) | 0x80, text.length >> 7];
  return new Uint8Array([0x12, ...length, ...text]);
}
