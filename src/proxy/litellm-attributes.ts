import { toPythonLiteral } from "../protocol/python-literal.ts";
import { attributeKeys } from "../protocol/semconv.ts";
import type { Attributes, JsonObject } from "../protocol/types.ts";
import type { CallRecord } from "./call-record.ts";
import { choicesOf } from "./call-record.ts";
import { isObject } from "./chat-request.ts";

/** The normalised call: LiteLLM's older dialect, with the tool calls it leaves out. */
export function litellmAttributes(record: CallRecord): Attributes {
  const { body, streamed } = record.request;
  return defined({
    "metadata.requester_custom_headers": identityHeaders(record),
    "gen_ai.request.model": record.upstream.model,
    "gen_ai.system": record.upstream.provider,
    "llm.request.type": "acompletion",
    "llm.is_streaming": streamed ? "True" : "False",
    "llm.user": body.user,
    ...samplingAttributes(record),
    ...toolAttributes(body.tools),
    ...promptAttributes(body.messages),
    ...answerAttributes(record),
    ...failureAttributes(record),
  });
}

function identityHeaders({ identity }: CallRecord): string {
  return toPythonLiteral({
    "x-rollout-id": identity.rolloutId,
    "x-attempt-id": identity.attemptId,
    "x-sequence-id": String(identity.sequenceId),
  });
}

const samplingNames = [
  "max_tokens",
  "max_completion_tokens",
  "temperature",
  "top_p",
  "top_k",
  "min_p",
  "presence_penalty",
  "frequency_penalty",
  "repetition_penalty",
  "seed",
  "n",
];

/** The values in force: the agent's, else the server's defaults. A temperature of 0 is written too. */
function samplingAttributes({ request, upstream }: CallRecord): JsonObject {
  const defaults = { temperature: 1, top_p: 1, ...upstream.samplingDefaults } as JsonObject;
  const values = samplingNames.map((name) => [
    `gen_ai.request.${name}`,
    request.body[name] ?? defaults[name],
  ]);
  return Object.fromEntries(values) as JsonObject;
}

function toolAttributes(tools: unknown): JsonObject {
  const attributes: JsonObject = {};
  listOf(tools).forEach((tool, index) => {
    const definition = isObject(tool.function) ? tool.function : {};
    for (const prefix of ["llm.request.functions", "gen_ai.request.functions"]) {
      attributes[`${prefix}.${index}.name`] = definition.name;
      attributes[`${prefix}.${index}.description`] = definition.description;
      attributes[`${prefix}.${index}.parameters`] = jsonText(definition.parameters);
    }
  });
  return attributes;
}

function promptAttributes(messages: unknown): JsonObject {
  const attributes: JsonObject = {};
  listOf(messages).forEach((message, index) => {
    const prefix = `gen_ai.prompt.${index}`;
    attributes[`${prefix}.role`] = message.role;
    attributes[`${prefix}.content`] = jsonText(message.content);
    attributes[`${prefix}.tool_call_id`] = message.tool_call_id;
    Object.assign(attributes, toolCallAttributes(prefix, message));
  });
  return attributes;
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
  };
}

function completionAttributes(answer: JsonObject): JsonObject {
  const attributes: JsonObject = {};
  let functionCalls = 0;
  choicesOf(answer).forEach((choice, index) => {
    const prefix = `gen_ai.completion.${index}`;
    const message = isObject(choice.message) ? choice.message : {};
    attributes[`${prefix}.finish_reason`] = choice.finish_reason;
    attributes[`${prefix}.role`] = message.role;
    attributes[`${prefix}.content`] = message.content === "" ? undefined : jsonText(message.content);
    Object.assign(attributes, toolCallAttributes(prefix, message));
    for (const call of listOf(message.tool_calls)) {
      const definition = isObject(call.function) ? call.function : {};
      // LiteLLM numbers these by tool call, not by choice.
      attributes[`gen_ai.completion.${functionCalls}.function_call.name`] = definition.name;
      attributes[`gen_ai.completion.${functionCalls}.function_call.arguments`] = definition.arguments;
      if (!isJson(definition.arguments)) attributes[attributeKeys.toolArgumentsInvalid] = true;
      functionCalls += 1;
    }
  });
  return attributes;
}

function toolCallAttributes(prefix: string, message: JsonObject): JsonObject {
  const attributes: JsonObject = {};
  listOf(message.tool_calls).forEach((call, index) => {
    const definition = isObject(call.function) ? call.function : {};
    attributes[`${prefix}.tool_calls.${index}.id`] = call.id;
    attributes[`${prefix}.tool_calls.${index}.name`] = definition.name;
    attributes[`${prefix}.tool_calls.${index}.arguments`] = jsonText(definition.arguments);
  });
  return attributes;
}

function failureAttributes({ failure }: CallRecord): JsonObject {
  if (failure === null) return {};
  return {
    "error.type": failure.type,
    "error.message": failure.message,
    "error.code": failure.status === null ? undefined : String(failure.status),
  };
}

function listOf(value: unknown): JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

function jsonText(value: unknown): unknown {
  return typeof value === "string" || value === null || value === undefined ? value : JSON.stringify(value);
}

function isJson(text: unknown): boolean {
  try {
    JSON.parse(String(text));
    return true;
  } catch {
    return false;
  }
}

/** Attributes hold no null, and nothing but texts, numbers and booleans. */
function defined(values: JsonObject): Attributes {
  const entries = Object.entries(values).filter(([, value]) =>
    ["string", "number", "boolean"].includes(typeof value),
  );
  return Object.fromEntries(entries) as Attributes;
}
