import { ChatAnswerReader, type FingerprintMemory, parseObject } from "../chat/answer-reader.ts";
import { answerFailure, type CallFailure, noAnswer, streamFailure } from "../chat/call-failure.ts";
import { sourceOf } from "../chat/byte-source.ts";
import { readLimited } from "../chat/limited-body.ts";
import { type ModelRequest, readModelRequest, recordedRequestText } from "../chat/model-request.ts";
import { relayStream } from "../chat/relay-stream.ts";
import { relayedHeaders } from "../chat/relayed-headers.ts";
import type { DirectFetch, DirectFetchOptions } from "../client/loopback-fetch.ts";
import { messageOf } from "../errors.ts";
import type { JsonObject } from "../protocol/types.ts";
import type { SpanCore } from "./attempt-spans.ts";
import { tracedCallSpan } from "./traced-call.ts";

export interface CallTrace {
  fetch: DirectFetch;
  /** Once per call, before the agent learns that its answer is complete. */
  onCall: (span: SpanCore) => void;
  now?: () => number;
  maxAnswerBytes?: number;
}

const defaultMaxAnswerBytes = 256 * 1024 * 1024;
const maxRefusalBytes = 64 * 1024;

/**
 * `fetch` for an OpenAI client: asks the model server for the token ids of each chat completion, makes a span of it,
 * and hands the answer on as it would have been without that. Every other request passes unchanged.
 */
export function traceChatCalls(trace: CallTrace): DirectFetch {
  const server: KnownServer = { refusesIds: false, fingerprint: {} };
  return async (url, options = {}) => {
    const request = chatRequestOf(url, options);
    return request === null
      ? trace.fetch(url, options)
      : new TracedExchange(trace, request, options, server).send(url);
  };
}

function chatRequestOf(url: string, { method, body }: DirectFetchOptions): ModelRequest | null {
  if (method?.toUpperCase() !== "POST" || typeof body !== "string") return null;
  if (!new URL(url).pathname.endsWith("/chat/completions")) return null;
  const read = readModelRequest(body);
  return read.ok ? read.request : null;
}

/** What all calls of one client have learned of its server. */
interface KnownServer {
  refusesIds: boolean;
  fingerprint: FingerprintMemory;
}

class TracedExchange {
  readonly #trace: CallTrace;
  readonly #request: ModelRequest;
  readonly #options: DirectFetchOptions;
  readonly #server: KnownServer;
  readonly #startTime: number;
  #asked = false;
  #over = false;

  constructor(trace: CallTrace, request: ModelRequest, options: DirectFetchOptions, server: KnownServer) {
    this.#trace = trace;
    this.#request = request;
    this.#options = options;
    this.#server = server;
    this.#startTime = this.#now();
  }

  async send(url: string): Promise<Response> {
    try {
      const response = await this.#ask(url);
      const streamed = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
      return response.ok && streamed && response.body !== null
        ? this.#relayStream(response, response.body)
        : await this.#relayWhole(response);
    } catch (error) {
      this.#end(null, this.#aborted ? null : connectionFailure(error));
      throw error;
    }
  }

  /** A server that refuses the question for ids, as OpenAI's own does, is asked without. */
  async #ask(url: string): Promise<Response> {
    const { fetch } = this.#trace;
    if (this.#server.refusesIds) return fetch(url, this.#options);
    const response = await fetch(url, { ...this.#options, body: recordedRequestText(this.#request) });
    this.#asked = this.#request.wantsTokenIds || !(await isRefusalOfIds(response));
    if (this.#asked) return response;
    this.#server.refusesIds = true;
    await response.body?.cancel();
    return fetch(url, this.#options);
  }

  #relayStream(response: Response, body: ReadableStream<Uint8Array>): Response {
    const reader = this.#reader();
    const end = (error?: unknown) => this.#endStream(reader, error);
    const relayed = relayStream(sourceOf(body), { reader, onWhole: end, onEnd: end });
    return new Response(relayed, { status: response.status, headers: relayedHeaders(response.headers) });
  }

  #endStream(reader: ChatAnswerReader, error: unknown): void {
    if (this.#over) return;
    const answer = reader.answer();
    // A client that reads of an error leaves because of it.
    const aborted = this.#aborted && !reader.done && reader.error === undefined;
    const broken = error !== undefined && !reader.done && !aborted;
    let failure = streamFailure(reader.error) ?? (broken ? connectionFailure(error) : null);
    if (answer === null && !aborted) failure ??= noAnswer("the stream ended without an answer");
    this.#end(answer, failure, aborted);
  }

  async #relayWhole(response: Response): Promise<Response> {
    const bytes = await readLimited(response, this.#maxAnswerBytes);
    if (bytes === null) throw new Error(`the answer is larger than ${this.#maxAnswerBytes} bytes`);
    const shown = { status: response.status, headers: relayedHeaders(response.headers) };
    const text = new TextDecoder().decode(bytes);
    const answer = parseObject(text);
    if (!response.ok || answer === null) {
      this.#end(null, answerFailure(response.status, answer, text));
      return new Response(bytes as Uint8Array<ArrayBuffer>, shown);
    }
    this.#end(answer, null);
    return new Response(this.#reader().whole(text, answer), shown);
  }

  #reader(): ChatAnswerReader {
    const { wantsTokenIds, wantsUsage } = this.#request;
    return new ChatAnswerReader(
      { hideTokenIds: this.#asked && !wantsTokenIds, hideUsage: this.#asked && !wantsUsage },
      this.#server.fingerprint,
    );
  }

  #end(answer: JsonObject | null, failure: CallFailure | null, abortedByClient = this.#aborted): void {
    if (this.#over) return;
    this.#over = true;
    this.#trace.onCall(
      tracedCallSpan({
        request: this.#request,
        answer,
        failure,
        abortedByClient,
        startTime: this.#startTime,
        endTime: this.#now(),
      }),
    );
  }

  get #aborted(): boolean {
    return this.#options.signal?.aborted === true;
  }

  get #maxAnswerBytes(): number {
    return this.#trace.maxAnswerBytes ?? defaultMaxAnswerBytes;
  }

  #now(): number {
    return (this.#trace.now?.() ?? Date.now()) / 1000;
  }
}

async function isRefusalOfIds(response: Response): Promise<boolean> {
  if (response.status !== 400 && response.status !== 422) return false;
  const bytes = await readLimited(response.clone(), maxRefusalBytes);
  return bytes !== null && new TextDecoder().decode(bytes).includes("return_token_ids");
}

function connectionFailure(error: unknown): CallFailure {
  const message = `the connection to the model server failed: ${messageOf(error)}`;
  return { status: null, type: "upstream_unreachable", message };
}
