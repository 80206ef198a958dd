import type { CallFailure } from "../../chat/call-failure.ts";
import { messageOf } from "../../errors.ts";
import type { Post, SentRequest, ServerAnswer, ServerRequest } from "../exchange/post.ts";
import type { Upstream } from "./upstreams.ts";

/** Made once: an error notes where it was made, and the server is to hear of it soon. */
const over = new DOMException("the exchange is over", "AbortError");

/** The request and not its signal: Bun makes that when it is first asked for, and most of the way does without it. */
export type AgentRequest = Pick<Request, "headers" | "signal">;

/**
 * One exchange with a model server. It ends when the agent goes away, wherever the exchange stands, and when the
 * first byte takes too long; once bytes flow there is no limit.
 */
export class UpstreamCall {
  readonly #agent: AgentRequest;
  readonly #firstByteTimeoutMs: number;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #sent: SentRequest | undefined;
  readonly #abort = () => this.#sent?.abort(over);
  #timedOut = false;

  constructor(agent: AgentRequest, firstByteTimeoutMs: number) {
    this.#agent = agent;
    this.#firstByteTimeoutMs = firstByteTimeoutMs;
  }

  get clientLeft(): boolean {
    return this.#agent.signal.aborted;
  }

  /** Once. */
  send(
    post: Post,
    upstream: Upstream,
    path: string,
    { headers, body }: { headers: ServerRequest["headers"]; body: string },
  ): Promise<ServerAnswer> {
    headers["accept-encoding"] = "identity";
    if (upstream.apiKey !== undefined) headers["authorization"] = `Bearer ${upstream.apiKey}`;
    const request: ServerRequest = { headers, body };
    if (upstream.unixSocket !== undefined) request.unix = upstream.unixSocket;
    this.#sent = post(upstream.baseUrl + path, request);
    // Only now, since the model can work meanwhile.
    this.#watch();
    return this.#sent.answer;
  }

  #watch(): void {
    const { signal } = this.#agent;
    if (signal.aborted) return this.#abort();
    this.#timer = setTimeout(() => {
      this.#timedOut = true;
      this.#abort();
    }, this.#firstByteTimeoutMs);
    signal.addEventListener("abort", this.#abort);
  }

  firstByteCame(): void {
    clearTimeout(this.#timer);
  }

  /** Nobody reads the rest of the answer. */
  giveUp(): void {
    this.end();
    this.#abort();
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#agent.signal.removeEventListener("abort", this.#abort);
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

/** What is said when there was no connection: nobody can have seen the request. */
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

export function forwardedRequestHeaders(headers: Headers): ServerRequest["headers"] {
  const forwarded: ServerRequest["headers"] = {};
  for (const name of requestHeaders) {
    const value = headers.get(name);
    if (value !== null) forwarded[name] = value;
  }
  return forwarded;
}
