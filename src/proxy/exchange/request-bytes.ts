import type { ServerRequest } from "./exchange.ts";

/** Where a request goes. */
export interface Destination {
  /** The same for all URLs of one server. */
  key: string;
  /** Host and port, or the path of a Unix socket. */
  socket: { hostname: string; port: number } | { unix: string };
  host: string;
  path: string;
}

/** Parsing an address takes longer than looking it up, and few are asked again and again. */
const known = new Map<string, Destination>();
const maxKnown = 1_000;

export function destinationOf(url: string, unix?: string): Destination {
  const key = unix === undefined ? url : `${unix} ${url}`;
  let destination = known.get(key);
  if (destination === undefined) {
    destination = parsed(url, unix);
    if (known.size >= maxKnown) known.clear();
    known.set(key, destination);
  }
  return destination;
}

function parsed(address: string, unix: string | undefined): Destination {
  const { hostname, host, port, pathname, search } = new URL(address);
  const socket =
    unix === undefined
      ? { hostname: hostname.replace(/^\[(.*)\]$/, "$1"), port: Number(port || 80) }
      : { unix };
  return { key: unix ?? host, socket, host, path: pathname + search };
}

/** As the agent's own request, which a header with a line break would end early. */
const impossible = /[\r\n\0\u0100-\uffff]/;

export function requestBytes({ host, path }: Destination, { headers, body }: ServerRequest): Uint8Array {
  let head = `POST ${path} HTTP/1.1\r\nhost: ${host}\r\nconnection: keep-alive\r\n`;
  for (const name in headers) {
    const value = headers[name] as string;
    if (impossible.test(value))
      throw new TypeError(`the header ${name} holds a character that cannot be sent`);
    head += `${name}: ${value}\r\n`;
  }
  const length = Buffer.byteLength(body);
  head += `content-length: ${length}\r\n\r\n`;
  const bytes = Buffer.allocUnsafe(head.length + length);
  bytes.write(head, "latin1");
  bytes.write(body, head.length);
  return bytes;
}
