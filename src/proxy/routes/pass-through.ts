import { answerFailure, noAnswer } from "../../chat/call-failure.ts";
import { readLimited } from "../../chat/limited-body.ts";
import { relayedHeaders } from "../../chat/relayed-headers.ts";
import type { ModelRequest } from "../../chat/model-request.ts";
import { withMembers } from "../../protocol/json-text.ts";
import type { CallSurroundings } from "../model-call.ts";
import { countIn } from "../counts.ts";
import { errorAnswer } from "../error-answer.ts";
import { withoutKey } from "../servers/provider-key.ts";
import { forwardedRequestHeaders, UpstreamCall, wasNeverReached } from "../servers/upstream-call.ts";
import type { Target } from "../servers/upstream-table.ts";

/** Routes that ask a model and change nothing; a model server's administration is not among them. */
export const passedRoutes = [
  "embeddings",
  "messages/count_tokens",
  "rerank",
  "score",
  "moderations",
] as const;

export interface PassThroughOptions {
  surroundings: CallSurroundings;
  target: Target;
  route: string;
  request: ModelRequest;
  clientHeaders: Headers;
  client: AbortSignal;
  /** It fails when nobody is reached; else it may be sent again. */
  isLastTry: boolean;
}

export function countUnrecorded({ counts, log }: CallSurroundings, route: string): void {
  countIn(counts.unrecorded, route);
  if (counts.unrecorded[route] === 1) {
    log.warning("calls of this route are forwarded and not recorded", { route });
  }
}

/** Forwarded with the model's name replaced and nothing recorded; null when it may be sent again. */
export async function passThrough(options: PassThroughOptions): Promise<Response | null> {
  const { surroundings, target, route, request, clientHeaders, client, isLastTry } = options;
  const { upstream, health } = target;
  const exchange = new UpstreamCall(client, surroundings.firstByteTimeoutMs);
  try {
    const response = await exchange.send(surroundings.fetch, upstream, `/${route}`, {
      headers: forwardedRequestHeaders(clientHeaders),
      body: withMembers(request.text, { model: JSON.stringify(upstream.model) }),
    });
    exchange.firstByteCame();
    if (response.status < 500) health.responded();
    if (!response.ok) return await relayedError(response, exchange, options);
    const body = response.body === null ? null : relayed(response.body, exchange, target);
    return new Response(body, { status: response.status, headers: relayedHeaders(response.headers) });
  } catch (error) {
    exchange.end();
    const failure = exchange.failureOf(error);
    if (!wasNeverReached(error)) health.ended(failure, exchange.clientLeft);
    else {
      health.notReached(failure.message);
      if (!isLastTry) return null;
    }
    if (exchange.clientLeft) return new Response(null, { status: 499 });
    return errorAnswer(failure.type === "upstream_timeout" ? 504 : 502, failure.type, failure.message);
  }
}

async function relayedError(
  response: Response,
  exchange: UpstreamCall,
  { target: { upstream, health }, surroundings }: PassThroughOptions,
): Promise<Response> {
  const bytes = await readLimited(response, surroundings.maxAnswerBytes);
  exchange.end();
  health.ended(answerFailure(response, null, null), exchange.clientLeft);
  if (bytes === null) {
    const { type, message } = noAnswer("the answer of the model server is too large");
    return errorAnswer(502, type, message);
  }
  const text = withoutKey(new TextDecoder().decode(bytes), upstream);
  return new Response(text, { status: response.status, headers: relayedHeaders(response.headers) });
}

function relayed(
  body: ReadableStream<Uint8Array>,
  exchange: UpstreamCall,
  { health }: Target,
): ReadableStream<Uint8Array> {
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const end = (error?: unknown) => {
    exchange.end();
    health.ended(error === undefined ? null : exchange.failureOf(error), exchange.clientLeft);
  };
  body.pipeTo(writable).then(() => end(), end);
  return readable;
}
