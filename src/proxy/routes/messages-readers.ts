import { messageText } from "../../anthropic/message-answer.ts";
import { asChatAnswer, MessageCollector } from "../../anthropic/message-collector.ts";
import { MessageEvents } from "../../anthropic/message-events.ts";
import { AnswerCollector } from "../../chat/answer-collector.ts";
import { withModelName } from "../../chat/answer-edits.ts";
import { CollectingReader, parseObject } from "../../chat/answer-reader.ts";
import type { StreamEvent } from "../../chat/event-stream.ts";
import { withData } from "../../chat/event-stream.ts";
import { isObject } from "../../chat/model-request.ts";
import { applyEdits, membersOf } from "../../protocol/json-text.ts";
import type { JsonObject } from "../../protocol/types.ts";

const encoder = new TextEncoder();

/** Of a chat completion that is shown as a message. */
export class TranslatedReader extends CollectingReader {
  readonly #modelName: string;
  readonly #events: MessageEvents;

  constructor(modelName: string) {
    super(new AnswerCollector());
    this.#modelName = modelName;
    this.#events = new MessageEvents(modelName);
  }

  protected show(_json: string, body: JsonObject): string {
    return messageText(body, this.#modelName);
  }

  event({ data }: StreamEvent): Uint8Array | null {
    const text = data === null ? "" : this.#shown(data);
    return text === "" ? null : encoder.encode(text);
  }

  #shown(data: string): string {
    if (data.trim() === "[DONE]") {
      this.collector.done = true;
      return this.error === undefined ? this.#events.end() : "";
    }
    const chunk = parseObject(data);
    if (chunk === null) return "";
    this.collector.add(chunk);
    return this.#events.chunk(chunk);
  }
}

/** Of a message, which has no token ids. */
export class VerbatimReader extends CollectingReader {
  readonly #modelName: string;

  constructor(modelName: string) {
    super(new MessageCollector());
    this.#modelName = modelName;
  }

  protected show(json: string, body: JsonObject): string {
    return withModelName(json, body, this.#modelName);
  }

  event(event: StreamEvent): Uint8Array | null {
    const parsed = event.data === null ? null : parseObject(event.data);
    if (event.data === null || parsed === null) return event.raw;
    this.collector.add(parsed);
    const { message } = parsed;
    if (!isObject(message)) return event.raw;
    const member = membersOf(event.data).find(({ key }) => key === "message")!;
    const { valueStart: start, end } = member;
    const replacement = this.show(event.data.slice(start, end), message);
    return withData(event, applyEdits(event.data, [{ start, end, replacement }]));
  }

  override answer(): JsonObject | null {
    const message = super.answer();
    return message === null ? null : asChatAnswer(message);
  }
}
