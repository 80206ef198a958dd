import { isJsonObject, parseJson, stringifyJson } from "../protocol/json.ts";
import type { JsonObject } from "../protocol/types.ts";
import { messageUsage } from "./message-usage.ts";
import { stopOf } from "./stop-reason.ts";

/** A plain chat completion as an Anthropic message, member for member as vLLM writes it. */
export function messageText(answer: JsonObject, modelName: string): string {
  const choice = firstOf(answer.choices);
  const message = isJsonObject(choice.message) ? choice.message : {};
  const calls = (Array.isArray(message.tool_calls) ? message.tool_calls : []).filter(isJsonObject);
  const tools = { used: calls.length > 0, complete: calls.length > 0 };
  const { stop_reason, stop_sequence } = stopOf(choice.finish_reason, choice.stop_reason, tools);
  return stringifyJson({
    id: answer.id,
    type: "message",
    role: "assistant",
    content: contentOf(message, calls),
    model: modelName,
    ...(stop_reason === null ? {} : { stop_reason }),
    ...(stop_sequence === null ? {} : { stop_sequence }),
    usage: messageUsage(answer.usage),
  });
}

function contentOf({ reasoning, content }: JsonObject, calls: JsonObject[]): JsonObject[] {
  const blocks: JsonObject[] = [];
  if (isText(reasoning)) {
    blocks.push({ type: "thinking", thinking: reasoning, signature: newSignature() });
  }
  if (isText(content)) blocks.push({ type: "text", text: content });
  blocks.push(...calls.map(toolUse));
  return blocks.length > 0 ? blocks : [{ type: "text", text: "" }];
}

function toolUse({ id, function: called }: JsonObject): JsonObject {
  const { name, arguments: text } = isJsonObject(called) ? called : {};
  return { type: "tool_use", id, name, input: inputOf(String(text)) };
}

/** What is no JSON stays text: vLLM answers such a call with 500, and the agent would never learn what was said. */
function inputOf(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return text;
  }
}

/** Required beside thinking; vLLM makes one up, too. */
export function newSignature(): string {
  return crypto.randomUUID().replaceAll("-", "");
}

function isText(value: unknown): boolean {
  return typeof value === "string" && value !== "";
}

function firstOf(choices: unknown): JsonObject {
  const first: unknown = Array.isArray(choices) ? choices[0] : undefined;
  return isJsonObject(first) ? first : {};
}
