import { readStructured } from "../protocol/python-literal.ts";
import { spanNames } from "../protocol/semconv.ts";
import type { Span } from "../protocol/types.ts";
import { chatMessage, chatTools } from "./chat-parts.ts";
import type { Conversation } from "./conversation.ts";
import { arrayOf, member, textOf } from "./opaque.ts";
import { rawProvider } from "./raw-provider.ts";

/** Of the verbatim span of a chat completion; what other routes answer, its normalised twin tells. */
export function rawConversation({ name, attributes }: Span): Conversation | null {
  if (name !== spanNames.rawRequest) return null;
  const provider = rawProvider(attributes);
  const read = (key: string) => readStructured(attributes[`llm.${provider}.${key}`]);
  const messages = read("messages");
  const choice = arrayOf(read("choices"))[0];
  const answer = member(choice, "message");
  if (!Array.isArray(messages) || !messages.every(isObject) || !isObject(answer)) return null;
  return {
    messages: messages.map(chatMessage),
    tools: chatTools(read("tools")),
    answer: chatMessage(answer),
    finishReason: textOf(member(choice, "finish_reason")),
  };
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
