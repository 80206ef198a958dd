import { readStructured } from "../protocol/python-literal.ts";
import type { Attributes, Span } from "../protocol/types.ts";
import { chatContent, chatToolCall, chatToolCalls, chatTools } from "./chat-parts.ts";
import type { ChatMessage, Conversation } from "./conversation.ts";
import { flatTools } from "./flat-conversation.ts";
import { arrayOf, member, textOf } from "./opaque.ts";

/** Some writers put the words into this event of the span. */
const detailsEvent = "gen_ai.client.inference.operation.details";

/** Of `gen_ai.input.messages`, as OpenTelemetry's conventions have it and LiteLLM's later dialect writes it. */
export function partsConversation(span: Span): Conversation | null {
  const details = span.events.find(({ name }) => name === detailsEvent)?.attributes;
  const attributes: Attributes = { ...details, ...span.attributes };
  const input = readStructured(attributes["gen_ai.input.messages"]);
  const output = readStructured(attributes["gen_ai.output.messages"]);
  if (!Array.isArray(input) && !Array.isArray(output)) return null;
  const first = arrayOf(output)[0];
  return {
    messages: [
      ...systemMessages(readStructured(attributes["gen_ai.system_instructions"])),
      ...arrayOf(input).flatMap(messagesOf),
    ],
    tools: chatTools(readStructured(attributes["gen_ai.tool.definitions"])) ?? flatTools(attributes),
    answer: first === undefined ? null : (messagesOf(first)[0] ?? null),
    finishReason:
      textOf(member(first, "finish_reason")) ??
      textOf(arrayOf(readStructured(attributes["gen_ai.response.finish_reasons"]))[0]),
  };
}

function systemMessages(instructions: unknown): ChatMessage[] {
  const content = Array.isArray(instructions) ? contentOf(instructions) : textOf(instructions);
  return content === null || content === "" ? [] : [{ role: "system", content }];
}

/** The results of several tools may come as parts of one message. */
function messagesOf(message: unknown): ChatMessage[] {
  const role = textOf(member(message, "role")) ?? "";
  const listed = member(message, "parts");
  const parts = Array.isArray(listed) ? (listed as unknown[]) : [];
  const results = parts.filter((part) => member(part, "type") === "tool_call_response").map(toolResult);
  const others = parts.filter((part) => !quietTypes.has(String(member(part, "type"))));
  const calls = [
    ...parts.filter((part) => member(part, "type") === "tool_call").map(chatToolCall),
    ...chatToolCalls(member(message, "tool_calls")),
  ].filter((call) => call !== null);
  if (results.length > 0 && others.length === 0 && calls.length === 0) return results;
  const content = Array.isArray(listed) ? contentOf(others) : chatContent(member(message, "content"));
  const id = textOf(member(message, "tool_call_id"));
  const reasoning = textsOf(parts.filter((part) => member(part, "type") === "reasoning"));
  const own: ChatMessage = {
    role,
    content: (content === "" && calls.length > 0 ? null : content) ?? (calls.length > 0 ? null : ""),
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
    ...(id === null ? {} : { tool_call_id: id }),
  };
  return [...results, own];
}

/** Parts that become something else than content. */
const quietTypes = new Set(["tool_call", "tool_call_response", "reasoning"]);

function toolResult(part: unknown): ChatMessage {
  const id = textOf(member(part, "id"));
  const response = member(part, "response") ?? member(part, "result") ?? "";
  return {
    role: "tool",
    content: typeof response === "string" ? response : JSON.stringify(response),
    ...(id === null ? {} : { tool_call_id: id }),
  };
}

/** One text where there is nothing but text. */
function contentOf(parts: unknown[]): unknown {
  if (parts.every((part) => member(part, "type") === "text")) return textsOf(parts);
  return parts.map((part) => {
    const uri = textOf(member(part, "uri"));
    if (member(part, "type") === "text") return { type: "text", text: textOf(member(part, "content")) ?? "" };
    if (member(part, "modality") !== "image") return part;
    const data = textOf(member(part, "content"));
    const type = textOf(member(part, "mime_type")) ?? "image/png";
    const url = uri ?? (data === null ? null : `data:${type};base64,${data}`);
    return url === null ? part : { type: "image_url", image_url: { url } };
  });
}

function textsOf(parts: unknown[]): string {
  return parts.map((part) => textOf(member(part, "content")) ?? textOf(member(part, "text")) ?? "").join("");
}
