import { isJsonText } from "../protocol/json.ts";
import type { Attributes, JsonObject } from "../protocol/types.ts";
import { choicesOf } from "./answer.ts";
import type { CallFailure } from "./call-failure.ts";
import { isObject, objectsOf } from "./model-request.ts";

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

/** The agent's values, else the defaults. A temperature of 0 is written too. */
export function samplingAttributes(body: JsonObject, defaults: JsonObject = {}): JsonObject {
  const values = samplingNames.map((name) => [`gen_ai.request.${name}`, body[name] ?? defaults[name]]);
  return Object.fromEntries(values) as JsonObject;
}

/** `<prefix>.{i}.*`: the functions offered to the model. */
export function toolAttributes(tools: unknown, prefix: string): JsonObject {
  const attributes: JsonObject = {};
  objectsOf(tools).forEach((tool, index) => {
    const definition = isObject(tool.function) ? tool.function : {};
    attributes[`${prefix}.${index}.name`] = definition.name;
    attributes[`${prefix}.${index}.description`] = definition.description;
    attributes[`${prefix}.${index}.parameters`] = jsonText(definition.parameters);
  });
  return attributes;
}

/** `gen_ai.prompt.{i}.*` */
export function promptAttributes(messages: unknown): JsonObject {
  const attributes: JsonObject = {};
  objectsOf(messages).forEach((message, index) => {
    const prefix = `gen_ai.prompt.${index}`;
    attributes[`${prefix}.role`] = message.role;
    attributes[`${prefix}.content`] = jsonText(message.content);
    attributes[`${prefix}.tool_call_id`] = message.tool_call_id;
    Object.assign(attributes, toolCallAttributes(prefix, message));
  });
  return attributes;
}

/** `gen_ai.completion.{i}.*`, one per choice. */
export function completionAttributes(answer: JsonObject): JsonObject {
  const attributes: JsonObject = {};
  choicesOf(answer).forEach((choice, index) => {
    const prefix = `gen_ai.completion.${index}`;
    const message = messageOf(choice);
    attributes[`${prefix}.finish_reason`] = choice.finish_reason;
    attributes[`${prefix}.role`] = message.role;
    attributes[`${prefix}.content`] = message.content === "" ? undefined : jsonText(message.content);
    Object.assign(attributes, toolCallAttributes(prefix, message));
  });
  return attributes;
}

/** Name and argument text of every tool call in the answer, over all choices. */
export function functionCallsOf(answer: JsonObject): { name: unknown; arguments: unknown }[] {
  return choicesOf(answer).flatMap((choice) =>
    objectsOf(messageOf(choice).tool_calls).map((call) => {
      const definition = isObject(call.function) ? call.function : {};
      return { name: definition.name, arguments: definition.arguments };
    }),
  );
}

export function hasInvalidArguments(answer: JsonObject): boolean {
  return functionCallsOf(answer).some((call) => !isJsonText(String(call.arguments)));
}

export function failureAttributes(failure: CallFailure | null): JsonObject {
  if (failure === null) return {};
  return {
    "error.type": failure.type,
    "error.message": failure.message,
    "error.code": failure.status === null ? undefined : String(failure.status),
  };
}

/** Attributes hold no null, and nothing but texts, numbers and booleans. */
export function definedAttributes(values: JsonObject): Attributes {
  const entries = Object.entries(values).filter(
    ([, value]) => typeof value === "string" || typeof value === "boolean" || Number.isFinite(value),
  );
  return Object.fromEntries(entries) as Attributes;
}

function toolCallAttributes(prefix: string, message: JsonObject): JsonObject {
  const attributes: JsonObject = {};
  objectsOf(message.tool_calls).forEach((call, index) => {
    const definition = isObject(call.function) ? call.function : {};
    attributes[`${prefix}.tool_calls.${index}.id`] = call.id;
    attributes[`${prefix}.tool_calls.${index}.name`] = definition.name;
    attributes[`${prefix}.tool_calls.${index}.arguments`] = jsonText(definition.arguments);
  });
  return attributes;
}

function messageOf(choice: JsonObject): JsonObject {
  return isObject(choice.message) ? choice.message : {};
}

function jsonText(value: unknown): unknown {
  return typeof value === "string" || value === null || value === undefined ? value : JSON.stringify(value);
}
