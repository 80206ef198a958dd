import {
  type CallEnd,
  choicesOf,
  inexactReason,
  isTokenId,
  promptTokenIds,
  responseTokenIds,
} from "../chat/answer.ts";
import { type ModelRequest, isObject } from "../chat/model-request.ts";
import {
  completionAttributes,
  definedAttributes,
  failureAttributes,
  hasInvalidArguments,
  promptAttributes,
  samplingAttributes,
  toolAttributes,
} from "../chat/message-attributes.ts";
import { attributeKeys, spanNames } from "../protocol/semconv.ts";
import type { Attributes, JsonObject } from "../protocol/types.ts";
import type { SpanCore } from "./attempt-spans.ts";

export interface TracedCall extends CallEnd {
  request: ModelRequest;
  /** Unix seconds. */
  startTime: number;
  endTime: number;
}

/** What the span of one chat completion says, in the names that agent-side tracers use. */
export function tracedCallSpan(call: TracedCall): SpanCore {
  const { request, failure, abortedByClient, startTime, endTime } = call;
  const error = failure?.message ?? (abortedByClient ? "the agent stopped before the end" : undefined);
  return {
    name: spanNames.chatCompletion,
    attributes: {
      ...definedAttributes({
        "gen_ai.system": "openai",
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": request.modelName,
        "gen_ai.request.streaming": request.streamed,
        ...samplingAttributes(request.body),
        ...toolAttributes(request.body.tools, "gen_ai.request.functions"),
        ...promptAttributes(request.body.messages),
        ...failureAttributes(failure),
      }),
      ...(call.answer === null ? {} : answerAttributes(call.answer)),
      ...ownAttributes(call),
    },
    startTime,
    endTime,
    ...(error === undefined ? {} : { error }),
  };
}

function answerAttributes(answer: JsonObject): Attributes {
  const usage = isObject(answer.usage) ? answer.usage : {};
  const reasons = choicesOf(answer).map((choice) => choice.finish_reason);
  return {
    ...definedAttributes({
      [attributeKeys.responseId]: answer.id,
      "gen_ai.response.model": answer.model,
      "gen_ai.usage.prompt_tokens": usage.prompt_tokens,
      "gen_ai.usage.completion_tokens": usage.completion_tokens,
      "gen_ai.usage.total_tokens": usage.total_tokens,
      ...completionAttributes(answer),
      "logprobs.content": logprobsText(answer),
      [attributeKeys.toolArgumentsInvalid]: hasInvalidArguments(answer) ? true : undefined,
    }),
    ...(reasons.every((reason) => typeof reason === "string")
      ? { "gen_ai.response.finish_reasons": reasons }
      : {}),
    ...tokenAttributes("prompt_token_ids", promptTokenIds(answer)),
    ...tokenAttributes("response_token_ids", responseTokenIds(answer)?.[0]),
  };
}

/** A list that is none of token ids would make the store refuse the span. */
function tokenAttributes(key: string, ids: unknown[] | null | undefined): Attributes {
  return ids !== null && ids !== undefined && ids.length > 0 && ids.every(isTokenId) ? { [key]: ids } : {};
}

function logprobsText(answer: JsonObject): string | undefined {
  const logprobs = choicesOf(answer)[0]?.logprobs;
  return isObject(logprobs) && Array.isArray(logprobs.content) ? JSON.stringify(logprobs.content) : undefined;
}

function ownAttributes(call: TracedCall): Attributes {
  const reason = inexactReason(call);
  return {
    [attributeKeys.streamed]: call.request.streamed,
    [attributeKeys.tokenExact]: reason === null,
    ...(reason === null ? {} : { [attributeKeys.inexactReason]: reason }),
    ...(call.abortedByClient ? { [attributeKeys.aborted]: true } : {}),
  };
}
