import { readStructured } from "../protocol/python-literal.ts";
import { attributeKeys, spanNames } from "../protocol/semconv.ts";
import type { Attributes, Span } from "../protocol/types.ts";

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

export function isCallSpan({ name, attributes }: Span): boolean {
  return (
    name === spanNames.rawRequest ||
    name === spanNames.litellmRequest ||
    attributes["gen_ai.request.model"] !== undefined
  );
}

/** `spans` are all of one call: the verbatim one tells most, the normalised one is there for failed calls, too. */
export function callStory(sequenceId: number, spans: readonly Span[]): CallStory {
  const raw = spans.find(({ name }) => name === spanNames.rawRequest);
  const normalised = spans.find((span) => span !== raw) ?? raw;
  const rawPart = raw === undefined ? null : rawStory(raw.attributes);
  const flat = flatStory(normalised?.attributes ?? {});
  const timed = raw ?? normalised;
  const failed = spans.find(({ status }) => status.status_code === "ERROR");
  const attributes: Attributes = { ...normalised?.attributes, ...raw?.attributes };
  return {
    kind: "call",
    sequence_id: sequenceId,
    response_id: textOf(attributes[attributeKeys.responseId]),
    model: textOf(attributes["gen_ai.request.model"]) ?? rawPart?.model ?? null,
    checkpoint: textOf(attributes[attributeKeys.checkpoint]),
    messages: rawPart !== null && rawPart.messages.length > 0 ? rawPart.messages : flat.messages,
    answer: rawPart?.answer ?? flat.answer,
    tool_calls: rawPart !== null && rawPart.tool_calls.length > 0 ? rawPart.tool_calls : flat.tool_calls,
    finish_reason: rawPart?.finish_reason ?? textOf(attributes["gen_ai.completion.0.finish_reason"]),
    prompt_tokens: rawPart?.prompt_tokens ?? flat.prompt_tokens,
    response_tokens: rawPart?.response_tokens ?? flat.response_tokens,
    seconds: secondsOf(timed),
    error: failed === undefined ? null : (failed.status.description ?? "failed"),
  };
}

type CallPart = Pick<CallStory, "messages" | "answer" | "tool_calls" | "prompt_tokens" | "response_tokens">;

function rawStory(attributes: Attributes): CallPart & { model: string | null; finish_reason: string | null } {
  const provider = Object.keys(attributes)
    .map((key) => /^llm\.([^.]+)\.(?:messages|choices)$/.exec(key)?.[1])
    .find((name) => name !== undefined);
  const read = (name: string) => readStructured(attributes[`llm.${provider}.${name}`]);
  const choice = objectOf(listOf(read("choices"))[0]);
  const message = objectOf(choice["message"]);
  const usage = objectOf(read("usage"));
  return {
    model: textOf(attributes[`llm.${provider}.model`]),
    messages: listOf(read("messages")).map(objectOf).map(storyMessage),
    answer: textOf(message["content"]),
    tool_calls: toolCalls(message["tool_calls"]),
    finish_reason: textOf(choice["finish_reason"]),
    prompt_tokens: numberOf(usage["prompt_tokens"]),
    response_tokens: numberOf(usage["completion_tokens"]),
  };
}

function flatStory(attributes: Attributes): CallPart {
  const messages: StoryMessage[] = [];
  for (let index = 0; attributes[`gen_ai.prompt.${index}.role`] !== undefined; index += 1) {
    const prefix = `gen_ai.prompt.${index}`;
    messages.push({
      role: String(attributes[`${prefix}.role`]),
      content: String(attributes[`${prefix}.content`] ?? ""),
    });
  }
  return {
    messages,
    answer: textOf(attributes["gen_ai.completion.0.content"]),
    tool_calls: flatToolCalls(attributes),
    prompt_tokens: numberOf(
      attributes["gen_ai.usage.prompt_tokens"] ?? attributes["gen_ai.usage.input_tokens"],
    ),
    response_tokens: numberOf(
      attributes["gen_ai.usage.completion_tokens"] ?? attributes["gen_ai.usage.output_tokens"],
    ),
  };
}

function flatToolCalls(attributes: Attributes): StoryToolCall[] {
  const calls: StoryToolCall[] = [];
  for (let index = 0; ; index += 1) {
    const prefix = `gen_ai.completion.0.tool_calls.${index}`;
    const name = attributes[`${prefix}.name`];
    if (typeof name !== "string") return calls;
    calls.push({ name, arguments: String(attributes[`${prefix}.arguments`] ?? "") });
  }
}

function storyMessage(message: { [key: string]: unknown }): StoryMessage {
  const calls = toolCalls(message["tool_calls"]).map(({ name, arguments: text }) => `${name}(${text})`);
  const content = contentText(message["content"]);
  return { role: String(message["role"] ?? "?"), content: [content, ...calls].filter(Boolean).join(" ") };
}

/** Content may be a list of parts; those without a text are named by their type. */
function contentText(content: unknown): string {
  if (!Array.isArray(content)) return textOf(content) ?? "";
  return content
    .map(objectOf)
    .map((part) => textOf(part["text"]) ?? `[${String(part["type"] ?? "part")}]`)
    .join(" ");
}

function toolCalls(value: unknown): StoryToolCall[] {
  return listOf(value)
    .map((call) => objectOf(objectOf(call)["function"]))
    .map((definition) => ({
      name: String(definition["name"] ?? "?"),
      arguments: String(definition["arguments"] ?? ""),
    }));
}

export function secondsOf(span: Span | undefined): number | null {
  if (span?.start_time == null || span.end_time == null) return null;
  return Math.max(0, Math.round((span.end_time - span.start_time) * 1000) / 1000);
}

function textOf(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

function numberOf(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function objectOf(value: unknown): { [key: string]: unknown } {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as { [key: string]: unknown })
    : {};
}
