import type { CallFailure } from "../../chat/call-failure.ts";
import type { DirectFetch, DirectFetchOptions } from "../../client/loopback-fetch.ts";
import { messageOf } from "../../errors.ts";
import type { Upstream } from "./upstreams.ts";

/**
 * One exchange with a model server. It ends when the agent goes away, wherever the exchange stands, and when the
 * first byte takes too long; once bytes flow there is no limit.
 */
export class UpstreamCall {
  readonly #controller = new AbortController();
  readonly #client: AbortSignal;
  readonly #firstByteTimeoutMs: number;
  readonly #timer: ReturnType<typeof setTimeout>;
  readonly #abort = () => this.#controller.abort();
  #timedOut = false;

  constructor(client: AbortSignal, firstByteTimeoutMs: number) {
    this.#client = client;
    this.#firstByteTimeoutMs = firstByteTimeoutMs;
    this.#timer = setTimeout(() => {
      this.#timedOut = true;
      this.#abort();
    }, firstByteTimeoutMs);
    client.addEventListener("abort", this.#abort);
    if (client.aborted) this.#abort();
  }

  get clientLeft(): boolean {
    return this.#client.aborted;
  }

  send(
    fetcher: DirectFetch,
    upstream: Upstream,
    path: string,
    request: DirectFetchOptions & { headers: Headers },
  ): Promise<Response> {
    const { headers } = request;
    headers.set("accept-encoding", "identity");
    if (upstream.apiKey !== undefined) headers.set("authorization", `Bearer ${upstream.apiKey}`);
    return fetcher(upstream.baseUrl + path, {
      ...request,
      redirect: "manual",
      signal: this.#controller.signal,
      ...(upstream.unixSocket === undefined ? {} : { unix: upstream.unixSocket }),
    });
  }

  firstByteCame(): void {
    clearTimeout(this.#timer);
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#client.removeEventListener("abort", this.#abort);
  }

  failureOf(error: unknown): CallFailure {
    if (this.#timedOut) {
      const message = `the model server sent nothing for ${this.#firstByteTimeoutMs / 1000} s`;
      return { status: null, type: "upstream_timeout", message };
    }
    const message = `the connection to the model server failed: ${messageOf(error)}`;
    return { status: null, type: "upstream_unreachable", message };
  }
}

/** What `fetch` says when there was no connection: nobody can have seen the request. */
const unreachedCodes = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "ENETUNREACH",
  "EHOSTUNREACH",
  // Of a Unix socket.
  "ENOENT",
]);

/** The call that failed like this never reached a server, so it may be sent again. */
export function wasNeverReached(error: unknown): boolean {
  return error instanceof Error && unreachedCodes.has(String((error as { code?: unknown }).code));
}

const requestHeaders = ["content-type", "accept", "x-request-id", "traceparent", "tracestate"];

export function forwardedRequestHeaders(headers: Headers): Headers {
  const forwarded = new Headers();
  for (const name of requestHeaders) {
    const value = headers.get(name);
    if (value !== null) forwarded.set(name, value);
  }
  return forwarded;
}
