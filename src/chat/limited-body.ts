import { collectBytes, sourceOf } from "./byte-source.ts";

/** The body; null when there is more than `maxBytes`, and the rest is not read then. */
export async function readLimited(message: Request | Response, maxBytes: number): Promise<Uint8Array | null> {
  if (lengthOf(message) <= maxBytes) return await message.bytes();
  // Asked for only now: a body that was once a stream is read as one, which costs several times as much.
  const { body } = message;
  return body === null ? new Uint8Array() : await collectBytes(sourceOf(body), maxBytes);
}

/** The same as text; bytes that are no UTF-8 become U+FFFD. */
export function readLimitedText(message: Request | Response, maxBytes: number): Promise<string | null> {
  if (lengthOf(message) <= maxBytes) return message.text();
  return readLimited(message, maxBytes).then((bytes) => (bytes === null ? null : decoder.decode(bytes)));
}

const decoder = new TextDecoder();

/** As HTTP keeps it; NaN when it was not said, or when the body will be longer once it is unpacked. */
function lengthOf({ headers }: Request | Response): number {
  const length = headers.get("content-length");
  return length === null || headers.has("content-encoding") ? Number.NaN : Number(length);
}
