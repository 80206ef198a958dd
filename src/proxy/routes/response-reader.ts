import type { AnswerReader } from "../../chat/answer-reader.ts";
import { parseObject } from "../../chat/answer-reader.ts";
import { withModelName } from "../../chat/answer-edits.ts";
import type { StreamEvent } from "../../chat/event-stream.ts";
import { withData } from "../../chat/event-stream.ts";
import { isObject, objectsOf } from "../../chat/model-request.ts";
import { applyEdits, membersOf } from "../../protocol/json-text.ts";
import type { JsonObject } from "../../protocol/types.ts";

const finalEvents = ["response.completed", "response.incomplete", "response.failed"];
/** The server's own record of both sides, with their tokens. */
const messageKeys = ["input_messages", "output_messages"];

/** Of OpenAI's responses. */
export class ResponseReader implements AnswerReader {
  readonly #modelName: string;
  readonly #hidesMessages: boolean;
  #response: { json: string; body: JsonObject } | undefined;
  done = false;
  error: unknown;

  constructor(modelName: string, hidesMessages: boolean) {
    this.#modelName = modelName;
    this.#hidesMessages = hidesMessages;
  }

  whole(json: string, body: JsonObject): string {
    this.#response = { json, body };
    return this.#shown(json, body);
  }

  event(event: StreamEvent): Uint8Array | null {
    const parsed = event.data === null ? null : parseObject(event.data);
    if (event.data === null || parsed === null) return event.raw;
    if (parsed.type === "error" || isObject(parsed.error)) this.error ??= parsed.error ?? parsed;
    const { response } = parsed;
    if (!isObject(response)) return event.raw;
    const { valueStart: start, end } = membersOf(event.data).find(({ key }) => key === "response")!;
    const json = event.data.slice(start, end);
    this.#response = { json, body: response };
    this.done ||= finalEvents.includes(String(parsed.type));
    if (parsed.type === "response.failed") this.error ??= response.error ?? "the response failed";
    const data = applyEdits(event.data, [{ start, end, replacement: this.#shown(json, response) }]);
    return data === event.data ? event.raw : withData(event, data);
  }

  answer(): JsonObject | null {
    return this.#response === undefined ? null : asChatAnswer(this.#response.body);
  }

  /** Without the tokens, which the record has in their place. */
  answerText(): string | null {
    return this.#response === undefined ? null : withoutMessages(this.#response.json);
  }

  #shown(json: string, body: JsonObject): string {
    const named = withModelName(json, body, this.#modelName);
    return this.#hidesMessages ? withoutMessages(named) : named;
  }
}

/** vLLM writes null where it was not asked. */
function withoutMessages(json: string): string {
  const edits = membersOf(json)
    .filter(({ key, valueStart }) => messageKeys.includes(key) && json[valueStart] === "[")
    .map(({ valueStart, end }) => ({ start: valueStart, end, replacement: "null" }));
  return applyEdits(json, edits);
}

function asChatAnswer(response: JsonObject): JsonObject {
  const { input_tokens, output_tokens, total_tokens } = isObject(response.usage) ? response.usage : {};
  const items = objectsOf(response.output);
  const tool_calls = items.filter(({ type }) => type === "function_call").map(toolCall);
  const content = items.flatMap((item) => (item.type === "message" ? objectsOf(item.content) : []));
  const text = content.map((part) => String(part.text ?? "")).join("");
  return {
    id: response.id,
    object: "chat.completion",
    created: response.created_at,
    model: response.model,
    choices: [
      {
        index: 0,
        message: {
          role: "assistant",
          content: text === "" && tool_calls.length > 0 ? null : text,
          ...(tool_calls.length === 0 ? {} : { tool_calls }),
        },
        finish_reason: finishReason(response.status, tool_calls.length > 0),
        token_ids: onlyTokens(response.output_messages),
      },
    ],
    usage: { prompt_tokens: input_tokens, completion_tokens: output_tokens, total_tokens },
    prompt_token_ids: onlyTokens(response.input_messages),
  };
}

function finishReason(status: unknown, calls: boolean): string | null {
  if (status === "incomplete") return "length";
  if (status !== "completed") return null;
  return calls ? "tool_calls" : "stop";
}

/** A response of several turns, as with tools that the server itself calls, is more than one call of the model. */
function onlyTokens(messages: unknown): unknown {
  const [first, ...others] = objectsOf(messages);
  return first === undefined || others.length > 0 ? null : first.tokens;
}

function toolCall({ call_id: id, name, arguments: text }: JsonObject): JsonObject {
  return { id, type: "function", function: { name, arguments: text } };
}
