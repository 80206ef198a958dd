import { isLoopback } from "../../client/loopback-fetch.ts";

/** Where a request to this machine goes. */
export interface Destination {
  /** The same for all URLs of one server. */
  key: string;
  /** Host and port, or the path of a Unix socket. */
  socket: { hostname: string; port: number } | { unix: string };
  host: string;
  path: string;
}

/** Looking at an address takes longer than looking it up, and few are asked for again and again. */
const known = new Map<string, Destination | null>();
const maxKnown = 1_000;

/** Null when a server is left to `fetch`: on another machine, behind TLS, or with a user in its URL. */
export function nearDestination(url: string, unix?: string): Destination | null {
  const key = unix === undefined ? url : `${unix} ${url}`;
  let destination = known.get(key);
  if (destination === undefined) {
    destination = parsed(url, unix);
    if (known.size >= maxKnown) known.clear();
    known.set(key, destination);
  }
  return destination;
}

function parsed(address: string, unix: string | undefined): Destination | null {
  const { protocol, username, password, hostname, host, port, pathname, search } = new URL(address);
  if (protocol !== "http:" || username !== "" || password !== "") return null;
  const path = pathname + search;
  if (unix !== undefined) return { key: unix, socket: { unix }, host, path };
  if (!isLoopback(address)) return null;
  const socket = { hostname: hostname.replace(/^\[(.*)\]$/, "$1"), port: Number(port || 80) };
  return { key: host, socket, host, path };
}
