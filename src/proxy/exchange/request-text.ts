import type { ServerRequest } from "./exchange.ts";

/** Where a request goes. */
export interface Destination {
  /** The same for all URLs of one server. */
  key: string;
  /** Host and port, or the path of a Unix socket. */
  socket: { hostname: string; port: number } | { unix: string };
  host: string;
  path: string;
  /** For the user whom the URL names. */
  authorization: string | undefined;
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
  const url = new URL(address);
  const { hostname, host, port, pathname, search } = url;
  const socket =
    unix === undefined
      ? { hostname: hostname.replace(/^\[(.*)\]$/, "$1"), port: Number(port || 80) }
      : { unix };
  return { key: unix ?? host, socket, host, path: pathname + search, authorization: basicOf(url) };
}

function basicOf({ username, password }: URL): string | undefined {
  if (username === "" && password === "") return undefined;
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return `Basic ${Buffer.from(credentials).toString("base64")}`;
}

const lineBreaking = /[\r\n\0\u0100-\uffff]/;
const beyondAscii = /[^\t -~]/;

/** As it is written. Nearly always one text, which costs less than bytes. */
export function requestText(
  { host, path, authorization }: Destination,
  { headers, body }: ServerRequest,
): string | Uint8Array {
  let head = `POST ${path} HTTP/1.1\r\nhost: ${host}\r\nconnection: keep-alive\r\n`;
  if (authorization !== undefined && headers["authorization"] === undefined) {
    head += `authorization: ${authorization}\r\n`;
  }
  let isAscii = true;
  for (const name in headers) {
    const value = headers[name] as string;
    if (beyondAscii.test(value)) {
      if (lineBreaking.test(value)) {
        throw new TypeError(`the header ${name} holds a character that cannot be sent`);
      }
      isAscii = false;
    }
    head += `${name}: ${value}\r\n`;
  }
  head += `content-length: ${Buffer.byteLength(body)}\r\n\r\n`;
  return isAscii ? head + body : Buffer.concat([Buffer.from(head, "latin1"), Buffer.from(body)]);
}
