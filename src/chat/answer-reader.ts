import type { JsonObject } from "../protocol/types.ts";
import { AnswerCollector } from "./answer-collector.ts";
import type { AnswerMask } from "./answer-edits.ts";
import { isFinalChunk, isUsageChunk, maskAnswer, maskChunk, withFingerprint } from "./answer-edits.ts";
import type { StreamEvent } from "./event-stream.ts";
import { withData } from "./event-stream.ts";
import { concatenate } from "./byte-source.ts";
import { isObject } from "./model-request.ts";

/** Reads one answer on its way to the agent, and shows it as it would be without the recorder. */
export interface AnswerReader {
  /** A plain answer. `body` is the parsed `json`. */
  whole(json: string, body: JsonObject): string;
  /** One event of a stream; null when the agent is not to see it. */
  event(event: StreamEvent): Uint8Array | null;
  /** What is still to be shown when the stream ends. */
  end?(): Uint8Array | null;
  /** In the shape of a chat completion; null when there is none. */
  answer(): JsonObject | null;
  /** The JSON that came; put together from the events of a stream. */
  answerText(): string | null;
  /** The stream has announced its end: the agent has everything. */
  readonly done: boolean;
  /** An error that the server reported inside the stream. */
  readonly error: unknown;
}

/** What a model server calls its configuration; undefined until it said so, null when it names none. */
export interface FingerprintMemory {
  value?: string | null;
}

/** Puts the chunks of a stream together to the answer that a plain call would have had. */
interface Collector {
  add(chunk: JsonObject): void;
  /** Null while nothing has come. */
  answer(): JsonObject | null;
  done: boolean;
  error: unknown;
}

/** What all readers do that collect. */
export abstract class CollectingReader implements AnswerReader {
  protected readonly collector: Collector;
  #whole: { json: string; body: JsonObject } | undefined;

  constructor(collector: Collector) {
    this.collector = collector;
  }

  abstract event(event: StreamEvent): Uint8Array | null;

  /** A plain answer as the agent is to see it. */
  protected abstract show(json: string, body: JsonObject): string;

  get done(): boolean {
    return this.collector.done;
  }

  get error(): unknown {
    return this.collector.error;
  }

  whole(json: string, body: JsonObject): string {
    this.#whole = { json, body };
    return this.show(json, body);
  }

  answer(): JsonObject | null {
    return this.#whole?.body ?? this.collector.answer();
  }

  answerText(): string | null {
    if (this.#whole !== undefined) return this.#whole.json;
    const answer = this.collector.answer();
    return answer === null ? null : JSON.stringify(answer);
  }
}

/** The usage follows the last choice's end at once; a server that sends this much in between sends none. */
const maxHeldEvents = 256;
const maxHeldBytes = 64 * 1024;

/** Of chat completions. */
export class ChatAnswerReader extends CollectingReader {
  readonly #mask: AnswerMask;
  readonly #memory: FingerprintMemory;
  /** From the first chunk that ends a choice, while the server's fingerprint is not known. */
  #held: { event: StreamEvent; final: boolean }[] = [];
  #heldBytes = 0;
  /** The event before is not shown. */
  #dropped = false;

  constructor(mask: AnswerMask, memory: FingerprintMemory = {}) {
    super(new AnswerCollector());
    this.#mask = mask;
    this.#memory = memory;
  }

  protected show(json: string, body: JsonObject): string {
    return maskAnswer(json, body, { ...this.#mask, hideUsage: false });
  }

  event(event: StreamEvent): Uint8Array | null {
    if (event.continues === true && this.#dropped) return null;
    this.#dropped = false;
    const chunk = event.data === null ? null : parseObject(event.data);
    if (event.data === null || chunk === null) {
      if (event.data?.trim() !== "[DONE]") return this.#pass(event, event.data, false);
      this.collector.done = true;
      return joined([...this.#release(), event.raw]);
    }
    this.collector.add(chunk);
    if (this.#mask.hideUsage && isUsageChunk(chunk)) {
      const { system_fingerprint: fingerprint } = chunk;
      this.#memory.value = typeof fingerprint === "string" ? fingerprint : null;
      this.#dropped = true;
      return joined(this.#release());
    }
    const masked = maskChunk(event.data, chunk, this.#mask);
    const final = this.#mask.hideUsage && isFinalChunk(chunk) && chunk.system_fingerprint === undefined;
    if (masked !== null) return this.#pass(event, masked, final);
    this.#dropped = true;
    return null;
  }

  end(): Uint8Array | null {
    return joined(this.#release());
  }

  #pass(event: StreamEvent, data: string | null, final: boolean): Uint8Array | null {
    const shown =
      data === null || data === event.data ? event : { ...event, raw: withData(event, data), data };
    const unknown = final && this.#memory.value === undefined;
    if (!unknown && this.#held.length === 0) return this.#stamped(shown, final);
    this.#held.push({ event: shown, final });
    this.#heldBytes += shown.raw.length;
    if (this.#held.length < maxHeldEvents && this.#heldBytes < maxHeldBytes) return null;
    this.#memory.value = null;
    return joined(this.#release());
  }

  #stamped(event: StreamEvent, final: boolean): Uint8Array {
    const { value } = this.#memory;
    if (!final || typeof value !== "string" || event.data === null) return event.raw;
    return withData(event, withFingerprint(event.data, value));
  }

  #release(): Uint8Array[] {
    return this.#held.splice(0).map(({ event, final }) => this.#stamped(event, final));
  }
}

function joined(parts: Uint8Array[]): Uint8Array | null {
  if (parts.length === 0) return null;
  return concatenate(
    parts,
    parts.reduce((sum, part) => sum + part.length, 0),
  );
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
