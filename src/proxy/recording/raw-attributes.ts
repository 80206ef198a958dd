import { promptTokenIds, responseTokenIds } from "../../chat/answer.ts";
import { membersOf } from "../../protocol/json-text.ts";
import { jsonToPythonLiteral, toPythonLiteral } from "../../protocol/python-literal.ts";
import { attributeKeys } from "../../protocol/semconv.ts";
import type { Attributes, AttributeValue } from "../../protocol/types.ts";
import type { CallRecord } from "./call-record.ts";

/** `llm.<provider>.*`: each member of the request, then of the answer, as the original's recorder writes them. */
export function rawAttributes(record: CallRecord): Attributes {
  const { answer, upstream } = record;
  const prefix = `llm.${upstream.provider}.`;
  const attributes: Attributes = { ...memberAttributes(record.requestText, prefix) };
  // What the agent did not send itself travels as an extra of the provider there.
  if (attributes[`${prefix}return_token_ids`] !== undefined) {
    delete attributes[`${prefix}return_token_ids`];
    attributes[`${prefix}extra_body`] = toPythonLiteral({ return_token_ids: true });
  }
  if (answer === null) return attributes;
  const [promptIds, responseIds] = [promptTokenIds(answer), responseTokenIds(answer)];
  const ownMember = promptIds === null ? undefined : "prompt_token_ids";
  Object.assign(attributes, memberAttributes(record.answerText ?? "{}", prefix, ownMember));
  if (promptIds !== null) attributes[`${prefix}prompt_token_ids`] = toPythonLiteral(promptIds);
  if (responseIds !== null) attributes[`${prefix}response_token_ids`] = toPythonLiteral(responseIds);
  if (typeof answer.id === "string") attributes[attributeKeys.responseId] = answer.id;
  return attributes;
}

function memberAttributes(json: string, prefix: string, except?: string): Attributes {
  const attributes: Attributes = {};
  for (const { key, valueStart, end } of membersOf(json)) {
    if (key !== except) attributes[prefix + key] = attributeValue(json.slice(valueStart, end));
  }
  return attributes;
}

/** Null becomes an empty text, numbers, texts and booleans stay, the rest becomes a Python literal. */
function attributeValue(json: string): AttributeValue {
  if (json === "null") return "";
  if (json.startsWith("{") || json.startsWith("[")) return jsonToPythonLiteral(json);
  return JSON.parse(json) as AttributeValue;
}
