import { readStructured } from "../protocol/python-literal.ts";
import type { Attributes, Span } from "../protocol/types.ts";
import { chatContent, chatToolCall, chatToolCalls, chatTools } from "./chat-parts.ts";
import type { ChatMessage, ChatTool, ChatToolCall, Conversation } from "./conversation.ts";
import { arrayOf, member, textOf } from "./opaque.ts";
import type { SpansBelow } from "./spans-below.ts";
import { numberedItems, unflatten } from "./unflatten.ts";

/** Of `gen_ai.prompt.{i}.*` and `gen_ai.completion.{i}.*`, as LiteLLM's older dialect and many tracers write them. */
export function flatConversation(span: Span, below: SpansBelow): Conversation | null {
  const { attributes } = span;
  const prompt = numberedItems(unflatten(attributes, "gen_ai.prompt"));
  const completions = numberedItems(unflatten(attributes, "gen_ai.completion"));
  if (prompt.length === 0 && completions.length === 0) return null;
  const choices = completions.filter(isChoice);
  const ownCalls = toolCallsOf(choices[0]);
  const calls = ownCalls.length > 0 ? ownCalls : callsBeside(span, completions, below);
  return {
    messages: prompt.map(flatMessage),
    tools: flatTools(attributes),
    answer: choices.length === 0 && calls.length === 0 ? null : answerOf(choices[0], calls),
    finishReason: textOf(member(choices[0], "finish_reason")),
    ...(calls !== ownCalls && calls.length > 0 && choices.length > 1
      ? { problem: "tool_calls_of_several_choices" }
      : {}),
  };
}

export function flatTools(attributes: Attributes): ChatTool[] | null {
  const named = ["gen_ai.request.functions", "llm.request.functions"].map((prefix) =>
    chatTools(numberedItems(unflatten(attributes, prefix))),
  );
  return named.find((tools) => tools !== null) ?? null;
}

/** LiteLLM numbers tool calls among the choices; those have neither role nor finish reason. */
export function isChoice(completion: unknown): boolean {
  return member(completion, "finish_reason") !== undefined || member(completion, "role") !== undefined;
}

function answerOf(choice: unknown, calls: ChatToolCall[]): ChatMessage {
  const content = contentOf(member(choice, "content"));
  return {
    role: "assistant",
    content: content ?? (calls.length > 0 ? null : ""),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
}

function flatMessage(message: unknown): ChatMessage {
  const calls = toolCallsOf(message);
  const id = textOf(member(message, "tool_call_id"));
  return {
    role: textOf(member(message, "role")) ?? "",
    content: contentOf(member(message, "content")) ?? (calls.length > 0 ? null : ""),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
    ...(id === null ? {} : { tool_call_id: id }),
  };
}

function toolCallsOf(message: unknown): ChatToolCall[] {
  return chatToolCalls(numberedItems(member(message, "tool_calls")));
}

/** Written as further completions, or as spans below the call's own. */
function callsBeside(span: Span, completions: unknown[], below: SpansBelow): ChatToolCall[] {
  const listed = chatToolCalls(completions.map((item) => member(item, "function_call")));
  if (listed.length > 0) return listed;
  return below(span)
    .map(({ attributes }) =>
      chatToolCall({
        id: attributes["tool.call.id"],
        name: attributes["tool.name"],
        arguments: attributes["tool.parameters"],
      }),
    )
    .filter((call) => call !== null);
}

/** A list of parts was written as text. */
function contentOf(content: unknown): unknown {
  if (typeof content !== "string" || !/^\s*\[\s*\{/.test(content)) return content;
  const parts = readStructured(content);
  const areParts = arrayOf(parts).length > 0 && arrayOf(parts).every((part) => textOf(member(part, "type")));
  return areParts ? chatContent(parts) : content;
}
