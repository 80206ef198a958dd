import { spanNames } from "../protocol/semconv.ts";
import type { Span } from "../protocol/types.ts";
import { flatConversation } from "./flat-conversation.ts";
import { openInferenceConversation } from "./openinference-conversation.ts";
import { operationConversation } from "./operation-conversation.ts";
import { partsConversation } from "./parts-conversation.ts";
import { rawConversation } from "./raw-conversation.ts";
import { rawProvider } from "./raw-provider.ts";
import { type SpansBelow, spansBelow } from "./spans-below.ts";

/** A message as OpenAI's chat API has it. */
export interface ChatMessage {
  role: string;
  /** Text, a list of parts, or null beside tool calls. */
  content: unknown;
  tool_calls?: ChatToolCall[];
  tool_call_id?: string;
  [extra: string]: unknown;
}

export interface ChatToolCall {
  /** Some writers leave it out. */
  id?: string;
  type: "function";
  function: { name: string; arguments: string };
}

export interface ChatTool {
  type: string;
  function?: { name: string; description?: string; parameters?: unknown; [extra: string]: unknown };
  [extra: string]: unknown;
}

/** What a call's spans tell of it in words. */
export interface Conversation {
  /** What the model was given. A role that nobody wrote is empty. */
  messages: ChatMessage[];
  tools: ChatTool[] | null;
  /** The first choice. */
  answer: ChatMessage | null;
  finishReason: string | null;
  /** Set where the words cannot be trusted: why. */
  problem?: string;
}

const readers = [
  rawConversation,
  partsConversation,
  flatConversation,
  openInferenceConversation,
  operationConversation,
];

/** By the writer that tells most. `below` knows all spans of the attempt: some write tool calls as spans of their own. */
export function conversationOf(spans: readonly Span[], below: SpansBelow = spansBelow(spans)): Conversation {
  const found: Conversation[] = [];
  for (const span of spans) {
    for (const read of readers) {
      const conversation = read(span, below);
      if (conversation !== null) found.push(conversation);
    }
  }
  const complete = found.find(({ messages, answer }) => messages.length > 0 && answer !== null);
  const best = complete ?? found.find(({ messages }) => messages.length > 0) ?? found[0];
  const { problem, ...words } = best ?? { messages: [], tools: null, answer: null, finishReason: null };
  const trouble = spans.some(isTextCompletion) ? "not_a_chat" : problem;
  return trouble === undefined ? words : { ...words, problem: trouble };
}

/** Its prompt went to the model as it is, without a chat template. */
function isTextCompletion({ name, attributes }: Span): boolean {
  if (name !== spanNames.rawRequest) {
    return (
      attributes["gen_ai.operation.name"] === "text_completion" ||
      attributes["llm.request.type"] === "completion"
    );
  }
  const prefix = `llm.${rawProvider(attributes)}.`;
  return attributes[`${prefix}prompt`] !== undefined && attributes[`${prefix}messages`] === undefined;
}
