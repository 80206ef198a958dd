import { type ByteSource, cancelled, collectBytes } from "../../chat/byte-source.ts";
import { answerFailure, isOk, noAnswer } from "../../chat/call-failure.ts";
import { relayedHeaders } from "../../chat/relayed-headers.ts";
import type { ModelRequest } from "../../chat/model-request.ts";
import { withMembers } from "../../protocol/json-text.ts";
import type { CallSurroundings } from "../model-call.ts";
import { countIn } from "../counts.ts";
import { errorAnswer } from "../error-answer.ts";
import type { ServerAnswer } from "../exchange/post.ts";
import { SentStream } from "../sent-stream.ts";
import { withoutKey } from "../servers/provider-key.ts";
import {
  type AgentRequest,
  forwardedRequestHeaders,
  UpstreamCall,
  wasNeverReached,
} from "../servers/upstream-call.ts";
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
  agent: AgentRequest;
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
  const { surroundings, target, route, request, agent, isLastTry } = options;
  const { upstream, health } = target;
  const exchange = new UpstreamCall(agent, surroundings.firstByteTimeoutMs);
  try {
    const answer = await exchange.send(surroundings.post, upstream, `/${route}`, {
      headers: forwardedRequestHeaders(agent.headers),
      body: withMembers(request.text, { model: JSON.stringify(upstream.model) }),
    });
    exchange.firstByteCame();
    const { status, headers } = answer;
    if (status < 500) health.responded();
    if (!isOk(status)) return await relayedError(answer, exchange, options);
    const body = new SentStream().of(watched(answer.body, exchange, target));
    return new Response(body, { status, headers: relayedHeaders(headers) });
  } catch (error) {
    exchange.giveUp();
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
  { status, headers, body }: ServerAnswer,
  exchange: UpstreamCall,
  { target: { upstream, health }, surroundings }: PassThroughOptions,
): Promise<Response> {
  const bytes = await collectBytes(body, surroundings.maxAnswerBytes);
  exchange.end();
  health.ended(answerFailure(status, null, null), exchange.clientLeft);
  if (bytes === null) {
    const { type, message } = noAnswer("the answer of the model server is too large");
    return errorAnswer(502, type, message);
  }
  const text = withoutKey(new TextDecoder().decode(bytes), upstream);
  return new Response(text, { status, headers: relayedHeaders(headers) });
}

/** The same bytes; their end is told to the server's health. */
function watched(source: ByteSource, exchange: UpstreamCall, { health }: Target): ByteSource {
  const end = (error?: unknown) => {
    exchange.end();
    health.ended(error === undefined ? null : exchange.failureOf(error), exchange.clientLeft);
  };
  return {
    start: (receiver) =>
      source.start({
        bytes: (bytes) => receiver.bytes(bytes),
        end(error) {
          receiver.end(error);
          end(error);
        },
      }),
    cancel() {
      source.cancel();
      end(cancelled());
    },
  };
}
