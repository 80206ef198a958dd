import { readStructured } from "../protocol/python-literal.ts";
import type { Span } from "../protocol/types.ts";
import { chatMessage, chatTools } from "./chat-parts.ts";
import type { Conversation } from "./conversation.ts";
import { member, textOf } from "./opaque.ts";
import { numberedItems, unflatten } from "./unflatten.ts";

/** Of an operation that is the client's own function: its arguments and what it returned. */
export function operationConversation({ attributes }: Span): Conversation | null {
  const input = unflatten(attributes, "agentlightning.operation.input");
  const output = unflatten(attributes, "agentlightning.operation.output");
  const read = (value: unknown, key: string) => numberedItems(readStructured(member(value, key)));
  const messages = read(input, "messages");
  const choice = read(output, "choices")[0];
  if (messages.length === 0 && choice === undefined) return null;
  const answer = member(choice, "message");
  return {
    messages: messages.map(chatMessage),
    tools: chatTools(read(input, "tools")),
    answer: answer === undefined ? null : chatMessage(answer),
    finishReason: textOf(member(choice, "finish_reason")),
  };
}
