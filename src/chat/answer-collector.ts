import type { JsonObject } from "../protocol/types.ts";
import { isObject } from "./model-request.ts";

interface CollectedChoice {
  index: number;
  message: JsonObject;
  toolCalls: CollectedToolCall[];
  /** Of a text completion, which has no message. */
  text: string | undefined;
  promptTokenIds: unknown;
  logprobs: { [list: string]: unknown[] } | null;
  finish_reason: unknown;
  stop_reason: unknown;
  token_ids: unknown[];
}

interface CollectedToolCall {
  index: unknown;
  id: unknown;
  type: unknown;
  name: string;
  arguments: string;
}

const envelopeKeys = ["id", "object", "created", "model", "service_tier", "system_fingerprint"];

/** Puts the chunks of a stream together to the answer that a plain call would have had. */
export class AnswerCollector {
  readonly #envelope: JsonObject = {};
  readonly #choices = new Map<number, CollectedChoice>();
  #promptTokenIds: unknown;
  #usage: unknown;
  /** `[DONE]` came: the agent has everything. */
  done = false;
  /** An error the server reported inside the stream. */
  error: unknown;

  add(chunk: JsonObject): void {
    if (chunk.error !== undefined && chunk.error !== null) this.error ??= chunk.error;
    for (const key of envelopeKeys) {
      if (this.#envelope[key] === undefined && chunk[key] !== undefined) this.#envelope[key] = chunk[key];
    }
    this.#promptTokenIds ??= chunk.prompt_token_ids;
    if (isObject(chunk.usage)) this.#usage = chunk.usage;
    for (const choice of Array.isArray(chunk.choices) ? chunk.choices : []) {
      if (isObject(choice)) this.#addChoice(choice);
    }
  }

  /** Null while no chunk has come. */
  answer(): JsonObject | null {
    if (this.#envelope.id === undefined && this.#choices.size === 0) return null;
    const choices = [...this.#choices.values()].sort((one, other) => one.index - other.index).map(toChoice);
    return {
      ...this.#envelope,
      object: objectOf(this.#envelope.object),
      choices,
      usage: this.#usage ?? null,
      prompt_token_ids: this.#promptTokenIds ?? null,
    };
  }

  #addChoice(chunk: JsonObject): void {
    const choice = this.#choice(typeof chunk.index === "number" ? chunk.index : 0);
    this.#promptTokenIds ??= chunk.prompt_token_ids;
    choice.promptTokenIds ??= chunk.prompt_token_ids;
    if (Array.isArray(chunk.token_ids)) for (const id of chunk.token_ids) choice.token_ids.push(id);
    if (isObject(chunk.logprobs)) addLogprobs(choice, chunk.logprobs);
    if (typeof chunk.text === "string") choice.text = (choice.text ?? "") + chunk.text;
    choice.finish_reason = chunk.finish_reason ?? choice.finish_reason;
    choice.stop_reason = chunk.stop_reason ?? choice.stop_reason;
    if (isObject(chunk.delta)) addDelta(choice, chunk.delta);
  }

  #choice(index: number): CollectedChoice {
    let choice = this.#choices.get(index);
    if (choice === undefined) {
      choice = {
        index,
        message: { role: "assistant", content: null },
        toolCalls: [],
        text: undefined,
        promptTokenIds: undefined,
        logprobs: null,
        finish_reason: null,
        stop_reason: null,
        token_ids: [],
      };
      this.#choices.set(index, choice);
    }
    return choice;
  }
}

/** A plain answer is no chunk. */
function objectOf(object: unknown): unknown {
  return object === "text_completion" ? object : "chat.completion";
}

/** Lists of the same length as the chunk's tokens; their names differ between the two APIs. */
function addLogprobs(choice: CollectedChoice, logprobs: JsonObject): void {
  for (const [name, entries] of Object.entries(logprobs)) {
    if (!Array.isArray(entries)) continue;
    choice.logprobs ??= {};
    const collected = (choice.logprobs[name] ??= []);
    for (const entry of entries) collected.push(entry);
  }
}

/** Every text of a delta grows: content, refusal, and whatever a server calls its reasoning. */
function addDelta(choice: CollectedChoice, delta: JsonObject): void {
  for (const [key, value] of Object.entries(delta)) {
    if (key === "role") choice.message.role = value ?? choice.message.role;
    else if (typeof value === "string") choice.message[key] = String(choice.message[key] ?? "") + value;
  }
  for (const part of Array.isArray(delta.tool_calls) ? delta.tool_calls : []) {
    if (isObject(part)) addToolCallPart(choice.toolCalls, part);
  }
}

function addToolCallPart(calls: CollectedToolCall[], part: JsonObject): void {
  const call = toolCallOf(calls, part);
  call.id ??= part.id;
  call.type ??= part.type;
  const definition = isObject(part.function) ? part.function : {};
  if (typeof definition.name === "string" && call.name === "") call.name = definition.name;
  if (typeof definition.arguments === "string") call.arguments += definition.arguments;
}

/** By index; servers that leave it out begin a new call with a new id and go on with the last one. */
function toolCallOf(calls: CollectedToolCall[], part: JsonObject): CollectedToolCall {
  const last = calls.at(-1);
  const known =
    typeof part.index === "number"
      ? calls.find(({ index }) => index === part.index)
      : typeof part.id === "string" && part.id !== last?.id
        ? calls.find(({ id }) => id === part.id)
        : last;
  if (known !== undefined) return known;
  const call: CollectedToolCall = {
    index: part.index,
    id: undefined,
    type: undefined,
    name: "",
    arguments: "",
  };
  calls.push(call);
  return call;
}

function toChoice(choice: CollectedChoice): JsonObject {
  const tool_calls = choice.toolCalls.map(({ id, type, name, arguments: text }) => ({
    id: id ?? null,
    type: type ?? "function",
    function: { name, arguments: text },
  }));
  const message = tool_calls.length === 0 ? choice.message : withToolCalls(choice.message, tool_calls);
  return {
    index: choice.index,
    ...(choice.text === undefined ? { message } : { text: choice.text }),
    logprobs: choice.logprobs,
    finish_reason: choice.finish_reason,
    stop_reason: choice.stop_reason,
    ...(choice.promptTokenIds === undefined ? {} : { prompt_token_ids: choice.promptTokenIds }),
    token_ids: choice.token_ids,
  };
}

/** Beside tool calls, the empty text of the first chunk is what a plain answer calls null. */
function withToolCalls(message: JsonObject, tool_calls: JsonObject[]): JsonObject {
  return { ...message, content: message.content === "" ? null : message.content, tool_calls };
}
