import type { AnswerReader } from "../chat/answer-reader.ts";
import { parseObject } from "../chat/answer-reader.ts";
import { collectBytes } from "../chat/byte-source.ts";
import type { CallFailure } from "../chat/call-failure.ts";
import { answerFailure, isOk, noAnswer, streamFailure } from "../chat/call-failure.ts";
import type { ModelRequest } from "../chat/model-request.ts";
import { RelayedEvents } from "../chat/relay-stream.ts";
import { relayedHeaders } from "../chat/relayed-headers.ts";
import type { Logger } from "../log.ts";
import type { JsonObject } from "../protocol/types.ts";
import type { Arrival } from "./recording/arrivals.ts";
import type { AttemptIds } from "./recording/attempt-key.ts";
import type { CallIdentity, CallRecord } from "./recording/call-record.ts";
import { callSpans } from "./recording/call-spans.ts";
import type { ProxyCounts } from "./counts.ts";
import { countIn } from "./counts.ts";
import { errorAnswer } from "./error-answer.ts";
import type { Post, ServerAnswer } from "./exchange/post.ts";
import type { RecordedRoute } from "./routes/recorded-route.ts";
import type { OpenCall } from "./recording/recorder.ts";
import type { Repetition } from "./recording/repeated-calls.ts";
import { SentStream } from "./sent-stream.ts";
import type { Fingerprints } from "./servers/fingerprints.ts";
import type { FinishedCalls } from "./recording/finished-calls.ts";
import { inexactCallReason } from "./recording/inexact-call.ts";
import { withoutKey } from "./servers/provider-key.ts";
import {
  type AgentRequest,
  forwardedRequestHeaders,
  UpstreamCall,
  wasNeverReached,
} from "./servers/upstream-call.ts";
import type { Target } from "./servers/upstream-table.ts";

export interface CallSurroundings {
  post: Post;
  counts: ProxyCounts;
  fingerprints: Fingerprints;
  finished: FinishedCalls;
  log: Logger;
  now: () => number;
  firstByteTimeoutMs: number;
  maxAnswerBytes: number;
}

export interface ModelCallOptions {
  surroundings: CallSurroundings;
  route: RecordedRoute;
  target: Target;
  request: ModelRequest;
  agent: AgentRequest;
  /** Null: forwarded, not recorded. */
  recording: CallRecording | null;
  /** It fails when nobody is reached; else it may be sent again. */
  isLastTry: boolean;
}

/** What is learnt of a call while the model server has it. */
export interface CallFacts {
  /** What the store says of it: the record waits for that, and the end of the answer a little. Never fails. */
  arrival: Promise<Arrival>;
  /** That is over. */
  hasArrived(): boolean;
  repetition: Repetition;
}

export interface CallRecording {
  ids: AttemptIds;
  facts(): CallFacts;
  /** The store is asked at the latest now. */
  askNow(): void;
  open: OpenCall;
}

interface CallEnd {
  /** Asked for when the call is written down: to put together a long answer takes a while. */
  answerText?(): string | null;
  answer?: JsonObject | null;
  failure?: CallFailure | null;
}

const maxNumberWaitMs = 1_000;

/**
 * Forwards one call, and hands the record on when it is over. The agent never waits for the record. Null when no server
 * was reached and this was not the last try: then nothing is recorded.
 */
export function forwardModelCall(options: ModelCallOptions): Promise<Response | null> {
  return new ModelCall(options).forward();
}

class ModelCall {
  readonly #options: ModelCallOptions;
  readonly #upstreamCall: UpstreamCall;
  readonly #requestText: string;
  readonly #startTime: number;
  #over = false;
  #reached = true;

  constructor(options: ModelCallOptions) {
    const { surroundings, route, request, target, recording } = options;
    this.#options = options;
    this.#startTime = surroundings.now() / 1000;
    this.#requestText = route.requestText(request, target.upstream, recording !== null);
    this.#upstreamCall = new UpstreamCall(options.agent, surroundings.firstByteTimeoutMs);
  }

  async forward(): Promise<Response | null> {
    let answer: ServerAnswer;
    const sent = this.#send();
    // While the model works.
    const reader = this.#reader();
    const stream = this.#options.request.streamed ? new SentStream() : undefined;
    try {
      answer = await sent;
    } catch (error) {
      return this.#notAnswered(error);
    }
    try {
      const { status, headers } = answer;
      if (status < 500) this.#options.target.health.responded();
      const streamed = headers.get("content-type")?.startsWith("text/event-stream") === true;
      if (isOk(status) && streamed) {
        const events = this.#relayed(answer, reader);
        const body = (stream ?? new SentStream()).of(events);
        return new Response(body, { status, headers: relayedHeaders(headers) });
      }
      return await this.#relayWhole(answer, reader);
    } catch (error) {
      // Ours, and not the server's.
      this.#upstreamCall.giveUp();
      throw error;
    }
  }

  #notAnswered(error: unknown): Response | null {
    const failure = this.#upstreamCall.failureOf(error);
    if (!wasNeverReached(error)) return this.#fail(failure);
    const { target, isLastTry } = this.#options;
    this.#reached = false;
    target.health.notReached(failure.message);
    if (isLastTry) return this.#fail(failure);
    this.#upstreamCall.end();
    return null;
  }

  #send(): Promise<ServerAnswer> {
    const { surroundings, route, target, agent } = this.#options;
    const headers = forwardedRequestHeaders(agent.headers);
    headers["content-type"] = "application/json";
    const request = { headers, body: this.#requestText };
    return this.#upstreamCall.send(surroundings.post, target.upstream, route.upstreamPath, request);
  }

  #relayed({ body }: ServerAnswer, reader: AnswerReader): RelayedEvents {
    return new RelayedEvents(body, {
      reader,
      onBytes: () => this.#upstreamCall.firstByteCame(),
      onWhole: () => this.#numbered(),
      onEnd: (error) => this.#endStream(reader, error),
    });
  }

  #endStream(reader: AnswerReader, error: unknown): void {
    const answer = reader.answer();
    const left = this.#upstreamCall.clientLeft;
    // Many clients close the connection at the end's announcement, before the server does.
    const broken = error !== undefined && !reader.done && !left;
    let failure = broken ? this.#upstreamCall.failureOf(error) : streamFailure(reader.error);
    if (answer === null && !left) failure ??= noAnswer("the stream ended without an answer");
    this.#end({ answer, answerText: () => reader.answerText(), failure }, left && !reader.done);
  }

  async #relayWhole(answer: ServerAnswer, reader: AnswerReader): Promise<Response> {
    const { status } = answer;
    this.#upstreamCall.firstByteCame();
    let bytes: Uint8Array | null;
    try {
      bytes = await collectBytes(answer.body, this.#options.surroundings.maxAnswerBytes);
    } catch (error) {
      return this.#fail(this.#upstreamCall.failureOf(error));
    }
    if (bytes === null) return this.#fail(noAnswer("the answer of the model server is too large"));
    const headers = relayedHeaders(answer.headers);
    const answerText = decode(bytes);
    const body = answerText === null ? null : parseObject(answerText);
    if (!isOk(status) || body === null || answerText === null) {
      this.#end({ failure: answerFailure(status, body, answerText) });
      const shown = answerText === null ? (bytes as Uint8Array<ArrayBuffer>) : this.#errorText(answerText);
      return new Response(shown, { status, headers });
    }
    const shown = reader.whole(answerText, body);
    this.#end({ answer: reader.answer(), answerText: () => answerText });
    await this.#numbered();
    return new Response(shown, { status, headers });
  }

  /**
   * What the agent writes after it has the answer gets later numbers than the call only when the call has its own. A
   * model is slower than the store, so this is over before it begins, unless the store has trouble.
   */
  #numbered(): Promise<void> | undefined {
    const { recording } = this.#options;
    if (recording === null || recording.facts().hasArrived()) return undefined;
    recording.askNow();
    return inTime(recording.facts().arrival);
  }

  #errorText(answerText: string): string {
    const { route, target } = this.#options;
    const text = withoutKey(answerText, target.upstream);
    return route.errorText?.(text) ?? text;
  }

  #reader(): AnswerReader {
    const { surroundings, route, request, target, recording } = this.#options;
    const fingerprint = surroundings.fingerprints.of(target.upstream);
    return route.reader(request, { recorded: recording !== null, fingerprint });
  }

  #fail(failure: CallFailure): Response {
    if (this.#upstreamCall.clientLeft) {
      this.#end({});
      return new Response(null, { status: 499 });
    }
    this.#end({ failure });
    const status = failure.type === "upstream_timeout" ? 504 : 502;
    return errorAnswer(status, failure.type, failure.message);
  }

  #end(
    { answerText = () => null, answer = null, failure: given = null }: CallEnd,
    aborted = this.#upstreamCall.clientLeft,
  ): void {
    if (this.#over) return;
    this.#over = true;
    this.#upstreamCall.end();
    const { recording, route, request, target, surroundings } = this.#options;
    const { upstream, health } = target;
    const failure = given && { ...given, message: withoutKey(given.message, upstream) };
    if (this.#reached) health.ended(failure, aborted);
    if (recording === null) return;
    const call: AnsweredCall = {
      upstream,
      request,
      chatBody: route.chatBody(request.body),
      requestText: this.#requestText,
      answer,
      failure,
      abortedByClient: aborted,
      startTime: this.#startTime,
      endTime: surroundings.now() / 1000,
    };
    recording.askNow();
    recording.facts().repetition.ended({ failed: aborted || failure !== null });
    countCall(call, recording, surroundings);
    const { counts, finished } = surroundings;
    finished.add(() => void record({ ...call, answerText: answerText() }, recording, counts));
  }
}

type AnsweredCall = Omit<CallRecord, "identity" | "answerText">;

async function inTime(arrival: Promise<Arrival>): Promise<void> {
  let timer: Timer | undefined;
  const limit = new Promise<void>((resolve) => (timer = setTimeout(resolve, maxNumberWaitMs)));
  await Promise.race([arrival, limit]);
  clearTimeout(timer);
}

async function record(
  call: Omit<CallRecord, "identity">,
  { ids, facts, open }: CallRecording,
  counts: ProxyCounts,
): Promise<void> {
  const { arrival, repetition } = facts();
  const { sequenceId, ended } = await arrival;
  if (ended) counts.stale += 1;
  const identity: CallIdentity = { ...ids, sequenceId, stale: ended, retry: repetition.count };
  const bytes = 4 * (call.requestText.length + (call.answerText?.length ?? 0));
  open.record(() => callSpans({ ...call, identity }), bytes);
}

function countCall(
  record: AnsweredCall,
  { ids, facts }: CallRecording,
  { counts, log }: CallSurroundings,
): void {
  const { failure } = record;
  const { repetition } = facts();
  if (repetition.count > 0) counts.repeated += 1;
  if (record.request.streamed) counts.streamed += 1;
  if (record.abortedByClient) counts.abortedByClient += 1;
  else if (failure !== null) {
    counts.failed += 1;
    countIn(counts.failedBy, failure.type);
    const { rolloutId: rollout_id, attemptId: attempt_id } = ids;
    const fields = { rollout_id, attempt_id, type: failure.type, message: failure.message };
    // A server that is down fails hundreds of calls for one reason.
    if (counts.failedBy[failure.type] === 1) {
      log.warning("a model call failed; more of this type are in the log only", fields);
    } else log.info("a model call failed", fields);
  } else {
    const reason = inexactCallReason(record);
    if (reason !== null) countIn(counts.inexact, reason);
  }
}

const strictDecoder = new TextDecoder("utf-8", { fatal: true });

function decode(bytes: Uint8Array): string | null {
  try {
    return strictDecoder.decode(bytes);
  } catch {
    return null;
  }
}
