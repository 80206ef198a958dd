import type { CallGroup } from "../adapter/call-groups.ts";
import { usageOfCall } from "../adapter/call-usage.ts";
import { type ChatMessage, type ChatToolCall, conversationOf } from "../adapter/conversation.ts";
import { finishReasonOf } from "../adapter/finish-reason.ts";
import type { SpansBelow } from "../adapter/spans-below.ts";
import { attributeKeys, spanNames } from "../protocol/semconv.ts";
import type { Span } from "../protocol/types.ts";

export interface StoryMessage {
  role: string;
  content: string;
}

export interface StoryToolCall {
  name: string;
  arguments: string;
}

/** One call of a model, as its spans tell it. */
export interface CallStory {
  kind: "call";
  sequence_id: number;
  response_id: string | null;
  model: string | null;
  checkpoint: string | null;
  /** Of the prompt. */
  messages: StoryMessage[];
  answer: string | null;
  tool_calls: StoryToolCall[];
  finish_reason: string | null;
  prompt_tokens: number | null;
  response_tokens: number | null;
  seconds: number | null;
  /** Why the call failed, or did not end. */
  error: string | null;
}

/** `below` knows all spans of the attempt. */
export function callStory({ sequenceId, responseId, spans }: CallGroup, below: SpansBelow): CallStory {
  const { messages, answer, finishReason } = conversationOf(spans, below);
  const { prompt_tokens, completion_tokens } = usageOfCall(spans);
  const text = answer === null ? "" : contentText(answer.content);
  return {
    kind: "call",
    sequence_id: sequenceId,
    response_id: responseId,
    model: firstText(spans, ["gen_ai.request.model", "llm.model_name"]) ?? rawModelOf(spans),
    checkpoint: firstText(spans, [attributeKeys.checkpoint]),
    messages: messages.map(storyMessage),
    answer: text === "" ? null : text,
    tool_calls: (answer?.tool_calls ?? []).map(storyToolCall),
    finish_reason: finishReason ?? finishReasonOf(spans),
    prompt_tokens,
    response_tokens: completion_tokens,
    seconds: secondsOf(spans[0]),
    error: errorOf(spans),
  };
}

/** A try that failed may lie beside the answer. */
function errorOf(spans: readonly Span[]): string | null {
  const told = spans.filter(({ name }) => name === spanNames.rawRequest);
  const failed = (told.length > 0 ? told : spans).find(({ status }) => status.status_code === "ERROR");
  return failed === undefined ? null : (failed.status.description ?? "failed");
}

function storyMessage({ role, content, tool_calls = [] }: ChatMessage): StoryMessage {
  const calls = tool_calls.map(storyToolCall).map(({ name, arguments: text }) => `${name}(${text})`);
  const texts = [contentText(content), ...calls].filter((text) => text !== "");
  return { role: role === "" ? "?" : role, content: texts.join(" ") };
}

function storyToolCall({ function: { name, arguments: text } }: ChatToolCall): StoryToolCall {
  return { name, arguments: text };
}

/** Content may be a list of parts; those without a text are named by their type. */
function contentText(content: unknown): string {
  if (!Array.isArray(content)) return typeof content === "string" ? content : "";
  return content
    .map((part: { type?: unknown; text?: unknown } | null) =>
      typeof part?.text === "string" ? part.text : `[${String(part?.type ?? "part")}]`,
    )
    .join(" ");
}

function firstText(spans: readonly Span[], keys: string[]): string | null {
  for (const key of keys) {
    for (const { attributes } of spans) {
      const value = attributes[key];
      if (typeof value === "string" && value !== "") return value;
    }
  }
  return null;
}

function rawModelOf(spans: readonly Span[]): string | null {
  const raw = spans.find(({ name }) => name === spanNames.rawRequest)?.attributes ?? {};
  const key = Object.keys(raw).find((name) => /^llm\..+\.model$/.test(name));
  return key === undefined ? null : firstText(spans, [key]);
}

export function secondsOf(span: Span | undefined): number | null {
  if (span?.start_time == null || span.end_time == null) return null;
  return Math.max(0, Math.round((span.end_time - span.start_time) * 1000) / 1000);
}
