import { isObject } from "../../chat/model-request.ts";
import {
  completionAttributes,
  definedAttributes,
  failureAttributes,
  functionCallsOf,
  hasInvalidArguments,
  promptAttributes,
  samplingAttributes,
  toolAttributes,
} from "../../chat/message-attributes.ts";
import { toPythonLiteral } from "../../protocol/python-literal.ts";
import { attributeKeys } from "../../protocol/semconv.ts";
import type { Attributes, JsonObject } from "../../protocol/types.ts";
import type { CallIdentity, CallRecord } from "./call-record.ts";

/** The normalised call: LiteLLM's older dialect, with the tool calls it leaves out. */
export function litellmAttributes(record: CallRecord): Attributes {
  const { request, upstream } = record;
  const { streamed } = request;
  const body = bodyInForce(record);
  return definedAttributes({
    [identityHeadersKey]: identityHeaders(record.identity),
    "gen_ai.request.model": upstream.model,
    "gen_ai.system": upstream.provider,
    "llm.request.type": "acompletion",
    "llm.is_streaming": streamed ? "True" : "False",
    "llm.user": body.user,
    ...samplingAttributes(body, { temperature: 1, top_p: 1, ...upstream.samplingDefaults }),
    ...toolAttributes(body.tools, "llm.request.functions"),
    ...toolAttributes(body.tools, "gen_ai.request.functions"),
    ...promptAttributes(body.messages),
    ...answerAttributes(record),
    ...failureAttributes(record.failure),
  });
}

/** The agent's values, and the upstream's defaults where it gave none. */
function bodyInForce({ chatBody: body, upstream: { requestDefaults = {} } }: CallRecord): JsonObject {
  const given = Object.entries(body).filter(([, value]) => value !== null);
  return { ...requestDefaults, ...Object.fromEntries(given) };
}

export const identityHeadersKey = "metadata.requester_custom_headers";

export function identityHeaders(
  identity: Pick<CallIdentity, "rolloutId" | "attemptId" | "sequenceId">,
): string {
  return toPythonLiteral({
    "x-rollout-id": identity.rolloutId,
    "x-attempt-id": identity.attemptId,
    "x-sequence-id": String(identity.sequenceId),
  });
}

function answerAttributes({ answer, upstream }: CallRecord): JsonObject {
  if (answer === null) return {};
  const usage = isObject(answer.usage) ? answer.usage : {};
  return {
    [attributeKeys.responseId]: answer.id,
    "gen_ai.response.model": `${upstream.provider}/${String(answer.model ?? upstream.model)}`,
    "llm.usage.total_tokens": usage.total_tokens,
    "gen_ai.usage.prompt_tokens": usage.prompt_tokens,
    "gen_ai.usage.completion_tokens": usage.completion_tokens,
    "metadata.usage_object": isObject(answer.usage) ? toPythonLiteral(answer.usage) : undefined,
    ...completionAttributes(answer),
    ...functionCallAttributes(answer),
    [attributeKeys.toolArgumentsInvalid]: hasInvalidArguments(answer) ? true : undefined,
  };
}

/** LiteLLM numbers these by tool call, not by choice. */
function functionCallAttributes(answer: JsonObject): JsonObject {
  const attributes: JsonObject = {};
  functionCallsOf(answer).forEach((call, index) => {
    attributes[`gen_ai.completion.${index}.function_call.name`] = call.name;
    attributes[`gen_ai.completion.${index}.function_call.arguments`] = call.arguments;
  });
  return attributes;
}
