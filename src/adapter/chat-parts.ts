import { readStructured } from "../protocol/python-literal.ts";
import type { ChatMessage, ChatTool, ChatToolCall } from "./conversation.ts";
import { arrayOf, member, textOf } from "./opaque.ts";

/** Parts of a message that OpenAI's chat API knows, and those of its responses that mean the same. */
export function chatContent(content: unknown): unknown {
  if (!Array.isArray(content)) return content;
  return content.map((part) => {
    const type = member(part, "type");
    if (type === "input_text" || type === "output_text") return { type: "text", text: member(part, "text") };
    if (type !== "input_image") return part as unknown;
    const url = member(part, "image_url");
    return typeof url === "string" ? { type: "image_url", image_url: { url } } : (part as unknown);
  });
}

/** As the API writes a call, or flat. Null without a name. */
export function chatToolCall(call: unknown): ChatToolCall | null {
  const definition = member(call, "function") ?? call;
  const name = textOf(member(definition, "name"));
  if (name === null) return null;
  const id = textOf(member(call, "id"));
  const given = member(definition, "arguments");
  return {
    ...(id === null ? {} : { id }),
    type: "function",
    function: { name, arguments: argumentText(given) },
  };
}

export function chatToolCalls(calls: unknown): ChatToolCall[] {
  return arrayOf(calls)
    .map(chatToolCall)
    .filter((call) => call !== null);
}

/** As the API writes a definition, or flat; null without a name. Tools of other kinds stay as they are. */
function chatTool(tool: unknown): ChatTool | null {
  const type = textOf(member(tool, "type")) ?? "function";
  if (type !== "function") return tool as ChatTool;
  const nested = member(tool, "function");
  const name = textOf(member(nested ?? tool, "name"));
  if (name === null) return null;
  const parameters = readStructured(member(nested ?? tool, "parameters"));
  const schema = isNothing(parameters) ? {} : { parameters };
  if (nested !== undefined)
    return { ...(tool as object), type, function: { ...(nested as object), name, ...schema } };
  return { type, function: { name, description: textOf(member(tool, "description")) ?? "", ...schema } };
}

export function chatTools(tools: unknown): ChatTool[] | null {
  const known = arrayOf(tools)
    .map(chatTool)
    .filter((tool) => tool !== null);
  return known.length === 0 ? null : known;
}

/** Libraries write members that are empty; they say nothing. */
export function chatMessage(message: unknown): ChatMessage {
  const given = typeof message === "object" && message !== null ? message : {};
  const { role, content, tool_calls, ...others } = given as { [key: string]: unknown };
  const calls = chatToolCalls(tool_calls);
  return {
    role: textOf(role) ?? "",
    content: chatContent(content) ?? (calls.length > 0 ? null : ""),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
    ...withoutNothing(others),
  };
}

function argumentText(given: unknown): string {
  if (typeof given === "string") return given;
  return isNothing(given) ? "" : JSON.stringify(given);
}

function withoutNothing(members: { [key: string]: unknown }): { [key: string]: unknown } {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => !isNothing(value)));
}

function isNothing(value: unknown): boolean {
  return (
    value === null || value === undefined || value === "" || (Array.isArray(value) && value.length === 0)
  );
}
