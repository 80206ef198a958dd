import { readStructured } from "../protocol/python-literal.ts";
import type { Span } from "../protocol/types.ts";
import { chatToolCalls, chatTools } from "./chat-parts.ts";
import type { ChatMessage, Conversation } from "./conversation.ts";
import { member, textOf } from "./opaque.ts";
import { numberedItems, unflatten } from "./unflatten.ts";

/** Of `llm.input_messages.{i}.message.*`, as OpenInference writes them. */
export function openInferenceConversation({ attributes }: Span): Conversation | null {
  const input = numberedItems(unflatten(attributes, "llm.input_messages"));
  const output = numberedItems(unflatten(attributes, "llm.output_messages"));
  if (input.length === 0 && output.length === 0) return null;
  return {
    messages: input.map(messageOf),
    tools: chatTools(numberedItems(unflatten(attributes, "llm.tools")).map(toolOf)),
    answer: output.length === 0 ? null : messageOf(output[0]),
    finishReason: textOf(attributes["llm.finish_reason"]),
  };
}

function messageOf(item: unknown): ChatMessage {
  const message = member(item, "message");
  const calls = chatToolCalls(
    numberedItems(member(message, "tool_calls")).map((call) => member(call, "tool_call")),
  );
  const parts = numberedItems(member(message, "contents")).map(partOf);
  const id = textOf(member(message, "tool_call_id"));
  const text = textOf(member(message, "content"));
  const content = text ?? (parts.length > 0 ? parts : null);
  return {
    role: textOf(member(message, "role")) ?? "",
    content: content ?? (calls.length > 0 ? null : ""),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
    ...(id === null ? {} : { tool_call_id: id }),
  };
}

function partOf(item: unknown): unknown {
  const content = member(item, "message_content");
  const type = textOf(member(content, "type"));
  if (type === "text") return { type, text: textOf(member(content, "text")) ?? "" };
  const url = textOf(member(member(member(content, "image"), "image"), "url"));
  return url === null ? { type: type ?? "unknown" } : { type: "image_url", image_url: { url } };
}

/** The schema is the whole definition, or that of the parameters only. */
function toolOf(item: unknown): unknown {
  const tool = member(item, "tool");
  const schema = readStructured(member(tool, "json_schema"));
  const definition = member(schema, "function") ?? schema;
  if (textOf(member(definition, "name")) !== null) return schema;
  return { name: member(tool, "name"), description: member(tool, "description"), parameters: schema };
}
