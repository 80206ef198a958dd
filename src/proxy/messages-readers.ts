import { messageText } from "../anthropic/message-answer.ts";
import { asChatAnswer, MessageCollector } from "../anthropic/message-collector.ts";
import { MessageEvents } from "../anthropic/message-events.ts";
import { AnswerCollector } from "../chat/answer-collector.ts";
import { withModelName } from "../chat/answer-edits.ts";
import type { AnswerReader } from "../chat/answer-reader.ts";
import { parseObject } from "../chat/answer-reader.ts";
import type { StreamEvent } from "../chat/event-stream.ts";
import { withData } from "../chat/event-stream.ts";
import { isObject } from "../chat/model-request.ts";
import { applyEdits, membersOf } from "../protocol/json-text.ts";
import type { JsonObject } from "../protocol/types.ts";

const encoder = new TextEncoder();

/** Of a chat completion that is shown as a message. */
export class TranslatedReader implements AnswerReader {
  readonly #modelName: string;
  readonly #collector = new AnswerCollector();
  readonly #events: MessageEvents;
  #whole: { json: string; body: JsonObject } | undefined;

  constructor(modelName: string) {
    this.#modelName = modelName;
    this.#events = new MessageEvents(modelName);
  }

  get done(): boolean {
    return this.#collector.done;
  }

  get error(): unknown {
    return this.#collector.error;
  }

  whole(json: string, body: JsonObject): string {
    this.#whole = { json, body };
    return messageText(body, this.#modelName);
  }

  event({ data }: StreamEvent): Uint8Array | null {
    const text = data === null ? "" : this.#shown(data);
    return text === "" ? null : encoder.encode(text);
  }

  answer(): JsonObject | null {
    return this.#whole?.body ?? this.#collector.answer();
  }

  answerText(): string | null {
    if (this.#whole !== undefined) return this.#whole.json;
    const answer = this.#collector.answer();
    return answer === null ? null : JSON.stringify(answer);
  }

  #shown(data: string): string {
    if (data.trim() === "[DONE]") {
      this.#collector.done = true;
      return this.error === undefined ? this.#events.end() : "";
    }
    const chunk = parseObject(data);
    if (chunk === null) return "";
    this.#collector.add(chunk);
    return this.#events.chunk(chunk);
  }
}

/** Of a message, which has no token ids. */
export class VerbatimReader implements AnswerReader {
  readonly #modelName: string;
  readonly #collector = new MessageCollector();
  #whole: { json: string; body: JsonObject } | undefined;

  constructor(modelName: string) {
    this.#modelName = modelName;
  }

  get done(): boolean {
    return this.#collector.done;
  }

  get error(): unknown {
    return this.#collector.error;
  }

  whole(json: string, body: JsonObject): string {
    this.#whole = { json, body };
    return withModelName(json, body, this.#modelName);
  }

  event(event: StreamEvent): Uint8Array | null {
    const parsed = event.data === null ? null : parseObject(event.data);
    if (event.data === null || parsed === null) return event.raw;
    this.#collector.add(parsed);
    const { message } = parsed;
    if (!isObject(message)) return event.raw;
    const member = membersOf(event.data).find(({ key }) => key === "message")!;
    const { valueStart: start, end } = member;
    const replacement = withModelName(event.data.slice(start, end), message, this.#modelName);
    return withData(event, applyEdits(event.data, [{ start, end, replacement }]));
  }

  answer(): JsonObject | null {
    const message = this.#whole?.body ?? this.#collector.message();
    return message === null ? null : asChatAnswer(message);
  }

  answerText(): string | null {
    if (this.#whole !== undefined) return this.#whole.json;
    const message = this.#collector.message();
    return message === null ? null : JSON.stringify(message);
  }
}
