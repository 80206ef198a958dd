import { type ByteSource, sourceOf } from "../../chat/byte-source.ts";
import type { DirectFetch, DirectFetchOptions } from "../../client/loopback-fetch.ts";
import { nearDestination } from "./destination.ts";
import type { LoopbackConnections } from "./loopback-connections.ts";

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

export interface SentRequest {
  /** Settles when the answer's head is there. */
  answer: Promise<ServerAnswer>;
  /** Ends it at once, wherever it stands; what is still to come fails with the reason. */
  abort(reason: unknown): void;
}

export type Post = (url: string, request: ServerRequest) => SentRequest;

/**
 * Servers on this machine are spoken to over connections of our own: `fetch` does its work on a thread of its own, and
 * the two changes of thread cost a token more than the rest of its way. All others are left to `fetch`.
 */
export function postOver(connections: LoopbackConnections, fetch: DirectFetch): Post {
  return (url, request) => {
    const destination = nearDestination(url, request.unix);
    return destination === null ? fetched(fetch, url, request) : connections.send(destination, request);
  };
}

const noBytes: ByteSource = { start: (receiver) => receiver.end(), cancel() {} };

function fetched(fetch: DirectFetch, url: string, request: ServerRequest): SentRequest {
  const controller = new AbortController();
  const { signal } = controller;
  const options: DirectFetchOptions = { ...request, method: "POST", redirect: "manual", signal };
  const answer = fetch(url, options).then(({ status, headers, body }) => {
    return { status, headers, body: body === null ? noBytes : sourceOf(body) };
  });
  return { answer, abort: (reason) => controller.abort(reason) };
}
