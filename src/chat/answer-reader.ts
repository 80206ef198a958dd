import type { JsonObject } from "../protocol/types.ts";
import { AnswerCollector } from "./answer-collector.ts";
import type { AnswerMask } from "./answer-edits.ts";
import { maskAnswer, maskChunk } from "./answer-edits.ts";
import type { StreamEvent } from "./event-stream.ts";
import { withData } from "./event-stream.ts";
import { isObject } from "./model-request.ts";

/** Reads one answer on its way to the agent, and shows it as it would be without the recorder. */
export interface AnswerReader {
  /** A plain answer. `body` is the parsed `json`. */
  whole(json: string, body: JsonObject): string;
  /** One event of a stream; null when the agent is not to see it. */
  event(event: StreamEvent): Uint8Array | null;
  /** In the shape of a chat completion; null when there is none. */
  answer(): JsonObject | null;
  /** The JSON that came; put together from the events of a stream. */
  answerText(): string | null;
  /** The stream has announced its end: the agent has everything. */
  readonly done: boolean;
  /** An error that the server reported inside the stream. */
  readonly error: unknown;
}

/** Of chat completions. */
export class ChatAnswerReader implements AnswerReader {
  readonly #mask: AnswerMask;
  readonly #collector = new AnswerCollector();
  #whole: { json: string; body: JsonObject } | undefined;

  constructor(mask: AnswerMask) {
    this.#mask = mask;
  }

  get done(): boolean {
    return this.#collector.done;
  }

  get error(): unknown {
    return this.#collector.error;
  }

  whole(json: string, body: JsonObject): string {
    this.#whole = { json, body };
    return maskAnswer(json, body, { ...this.#mask, hideUsage: false });
  }

  event(event: StreamEvent): Uint8Array | null {
    if (event.data === null) return event.raw;
    if (event.data.trim() === "[DONE]") {
      this.#collector.done = true;
      return event.raw;
    }
    const chunk = parseObject(event.data);
    if (chunk === null) return event.raw;
    this.#collector.add(chunk);
    const masked = maskChunk(event.data, chunk, this.#mask);
    if (masked === null) return null;
    return masked === event.data ? event.raw : withData(event, masked);
  }

  answer(): JsonObject | null {
    return this.#whole?.body ?? this.#collector.answer();
  }

  answerText(): string | null {
    if (this.#whole !== undefined) return this.#whole.json;
    const answer = this.#collector.answer();
    return answer === null ? null : JSON.stringify(answer);
  }
}

/** Null for what is no JSON object. */
export function parseObject(text: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}
