import type { Destination } from "./destination.ts";
import type { ServerRequest } from "./post.ts";

const unsendable = /[\r\n\0\u0100-\uffff]/;
const beyondAscii = /[^\t -~]/;

/** The request's bytes; as text where all of its head is ASCII, which is cheaper to write. */
export function requestText(
  { host, path }: Destination,
  { headers, body }: ServerRequest,
): string | Uint8Array {
  let head = `POST ${path} HTTP/1.1\r\nhost: ${host}\r\nconnection: keep-alive\r\n`;
  let isAscii = true;
  for (const name in headers) {
    const value = headers[name] as string;
    if (beyondAscii.test(value)) {
      if (unsendable.test(value)) {
        throw new TypeError(`the header ${name} holds a character that cannot be sent`);
      }
      isAscii = false;
    }
    head += `${name}: ${value}\r\n`;
  }
  head += `content-length: ${Buffer.byteLength(body)}\r\n\r\n`;
  return isAscii ? head + body : Buffer.concat([Buffer.from(head, "latin1"), Buffer.from(body)]);
}
