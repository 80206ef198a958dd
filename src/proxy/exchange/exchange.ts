import type { ByteSource } from "../../chat/byte-source.ts";
import { sourceOf } from "../../chat/byte-source.ts";
import { type DirectFetch, type DirectFetchOptions, isLoopback } from "../../client/loopback-fetch.ts";
import type { LoopbackConnections } from "./loopback-connections.ts";

/** A POST. */
export interface ServerRequest {
  /** By their names in lower case. */
  headers: { [name: string]: string };
  body: string;
  /** Path of a Unix socket to send the request through; the URL's host is then only a name. */
  unix?: string;
}

export interface ServerAnswer {
  status: number;
  headers: Headers;
  body: ByteSource;
}

/** A request on its way. */
export interface OpenExchange {
  /** Settles when the answer's head is there. */
  answer: Promise<ServerAnswer>;
  /** Ends it at once, wherever it stands; what is still to come fails with the reason. */
  abort(reason: unknown): void;
}

export type Exchange = (url: string, request: ServerRequest) => OpenExchange;

/**
 * Servers on this machine are spoken to over connections of our own: `fetch` does its work on a thread of its own, and
 * the two changes of thread cost a token more than the rest of its way. All others, and TLS, are left to `fetch`.
 */
export function exchangeOver(connections: LoopbackConnections, fetch: DirectFetch): Exchange {
  return (url, request) => {
    const isNear = url.startsWith("http://") && (request.unix !== undefined || isLoopback(url));
    return isNear ? connections.send(url, request) : fetched(fetch, url, request);
  };
}

function fetched(fetch: DirectFetch, url: string, request: ServerRequest): OpenExchange {
  const controller = new AbortController();
  const { signal } = controller;
  const options: DirectFetchOptions = { ...request, method: "POST", redirect: "manual", signal };
  const answer = fetch(url, options).then(({ status, headers, body }) => {
    return { status, headers, body: sourceOf(body ?? new Blob().stream()) };
  });
  return { answer, abort: (reason) => controller.abort(reason) };
}
