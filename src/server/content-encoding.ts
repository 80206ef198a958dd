import { gunzipSync, inflateRawSync, inflateSync } from "node:zlib";
import { messageOf } from "../errors.ts";
import { PayloadError } from "./otlp/payload-error.ts";
import { BodyTooLarge } from "./request-body.ts";

/** The body as it was before its `Content-Encoding`, at most so many bytes. An empty body stays empty. */
export function unpackBody(bytes: Uint8Array, contentEncoding: string | undefined, maxBytes: number) {
  const encoding = (contentEncoding ?? "").trim().toLowerCase();
  if (encoding === "" || encoding === "identity" || bytes.length === 0) return bytes;
  const unpack = encoding === "gzip" ? gunzipSync : encoding === "deflate" ? inflateOf(bytes) : null;
  if (unpack === null) {
    throw new PayloadError(`content encoding ${encoding.slice(0, 100)}: send gzip, deflate or identity`);
  }
  try {
    return unpack(bytes, { maxOutputLength: maxBytes });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE") throw new BodyTooLarge(maxBytes);
    throw new PayloadError(`the body is no ${encoding}: ${messageOf(error)}`);
  }
}

/** Deflate means zlib's format, yet some send the bare stream: the first two bytes tell (RFC 1950). */
function inflateOf([method = 0, flags = 0]: Uint8Array) {
  const isZlib = (method & 0x0f) === 8 && (method * 256 + flags) % 31 === 0;
  return isZlib ? inflateSync : inflateRawSync;
}
