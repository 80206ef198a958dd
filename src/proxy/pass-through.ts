import { relayedHeaders } from "../chat/relayed-headers.ts";
import type { ModelRequest } from "../chat/model-request.ts";
import { withMembers } from "../protocol/json-text.ts";
import type { CallSurroundings } from "./model-call.ts";
import { countIn } from "./counts.ts";
import { errorAnswer } from "./error-answer.ts";
import { forwardedRequestHeaders, UpstreamCall } from "./upstream-call.ts";
import type { Upstream } from "./upstreams.ts";

/** Routes that ask a model and change nothing; a model server's administration is not among them. */
export const passedRoutes = [
  "embeddings",
  "messages/count_tokens",
  "rerank",
  "score",
  "moderations",
] as const;

/** Forwarded with the model's name replaced and nothing recorded. */
export async function passThrough(options: {
  surroundings: CallSurroundings;
  upstream: Upstream;
  route: string;
  request: ModelRequest;
  clientHeaders: Headers;
  client: AbortSignal;
}): Promise<Response> {
  const { surroundings, upstream, route, request, clientHeaders, client } = options;
  countIn(surroundings.counts.unrecorded, route);
  if (surroundings.counts.unrecorded[route] === 1) {
    surroundings.log.warning("calls of this route are forwarded and not recorded", { route });
  }
  const exchange = new UpstreamCall(client, surroundings.firstByteTimeoutMs);
  try {
    const response = await exchange.send(surroundings.fetch, upstream, `/${route}`, {
      method: "POST",
      headers: forwardedRequestHeaders(clientHeaders),
      body: withMembers(request.text, { model: JSON.stringify(upstream.model) }),
    });
    exchange.firstByteCame();
    const body = response.body === null ? null : relayed(response.body, exchange);
    return new Response(body, { status: response.status, headers: relayedHeaders(response.headers) });
  } catch (error) {
    exchange.end();
    if (exchange.clientLeft) return new Response(null, { status: 499 });
    const failure = exchange.failureOf(error);
    return errorAnswer(failure.type === "upstream_timeout" ? 504 : 502, failure.type, failure.message);
  }
}

function relayed(body: ReadableStream<Uint8Array>, exchange: UpstreamCall): ReadableStream<Uint8Array> {
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const end = () => exchange.end();
  body.pipeTo(writable).then(end, end);
  return readable;
}
