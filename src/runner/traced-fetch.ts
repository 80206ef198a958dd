import { AnswerCollector } from "../chat/answer-collector.ts";
import type { AnswerMask } from "../chat/answer-edits.ts";
import { maskAnswer } from "../chat/answer-edits.ts";
import { answerFailure, type CallFailure, noAnswer, streamFailure } from "../chat/call-failure.ts";
import { type ChatRequest, isObject, readChatRequest, recordedRequestText } from "../chat/chat-request.ts";
import { readLimited } from "../chat/limited-body.ts";
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
  const server = { refusesIds: false };
  return async (url, options = {}) => {
    const request = chatRequestOf(url, options);
    return request === null
      ? trace.fetch(url, options)
      : new TracedExchange(trace, request, options, server).send(url);
  };
}

function chatRequestOf(url: string, { method, body }: DirectFetchOptions): ChatRequest | null {
  if (method?.toUpperCase() !== "POST" || typeof body !== "string") return null;
  if (!new URL(url).pathname.endsWith("/chat/completions")) return null;
  const read = readChatRequest(body);
  return read.ok ? read.request : null;
}

class TracedExchange {
  readonly #trace: CallTrace;
  readonly #request: ChatRequest;
  readonly #options: DirectFetchOptions;
  /** Of all calls of one client: whether their server knows what we ask for. */
  readonly #server: { refusesIds: boolean };
  readonly #startTime: number;
  #asked = false;
  #over = false;

  constructor(
    trace: CallTrace,
    request: ChatRequest,
    options: DirectFetchOptions,
    server: { refusesIds: boolean },
  ) {
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
    const collector = new AnswerCollector();
    const end = (error?: unknown) => this.#endStream(collector, error);
    const relayed = relayStream(body, { mask: this.#mask(true), collector, onWhole: end, onEnd: end });
    return new Response(relayed, { status: response.status, headers: relayedHeaders(response.headers) });
  }

  #endStream(collector: AnswerCollector, error: unknown): void {
    if (this.#over) return;
    const answer = collector.answer();
    // A client that reads of an error leaves because of it.
    const aborted = this.#aborted && !collector.done && collector.error === undefined;
    const broken = error !== undefined && !collector.done && !aborted;
    let failure = streamFailure(collector.error) ?? (broken ? connectionFailure(error) : null);
    if (answer === null && !aborted) failure ??= noAnswer("the stream ended without an answer");
    this.#end(answer, failure, aborted);
  }

  async #relayWhole(response: Response): Promise<Response> {
    const bytes = await readLimited(response.body, this.#maxAnswerBytes);
    if (bytes === null) throw new Error(`the answer is larger than ${this.#maxAnswerBytes} bytes`);
    const shown = { status: response.status, headers: relayedHeaders(response.headers) };
    const text = new TextDecoder().decode(bytes);
    const answer = parseObject(text);
    if (!response.ok || answer === null) {
      this.#end(null, answerFailure(response, answer, text));
      return new Response(bytes as Uint8Array<ArrayBuffer>, shown);
    }
    this.#end(answer, null);
    return new Response(maskAnswer(text, answer, this.#mask(false)), shown);
  }

  #mask(stream: boolean): AnswerMask {
    const { wantsTokenIds, wantsUsage } = this.#request;
    return {
      hideTokenIds: this.#asked && !wantsTokenIds,
      hideUsage: this.#asked && stream && !wantsUsage,
    };
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
  const bytes = await readLimited(response.clone().body, maxRefusalBytes);
  return bytes !== null && new TextDecoder().decode(bytes).includes("return_token_ids");
}

function connectionFailure(error: unknown): CallFailure {
  const message = `the connection to the model server failed: ${messageOf(error)}`;
  return { status: null, type: "upstream_unreachable", message };
}

function parseObject(text: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}
