import type { JsonObject } from "../protocol/types.ts";
import type { AnswerCollector } from "./answer-collector.ts";
import type { AnswerMask } from "./answer-edits.ts";
import { maskChunk } from "./answer-edits.ts";
import { isObject } from "./chat-request.ts";
import type { StreamEvent } from "./event-stream.ts";
import { EventStreamParser, withData } from "./event-stream.ts";
import { concatenate } from "./limited-body.ts";

export interface StreamRelay {
  mask: AnswerMask;
  collector: AnswerCollector;
  onBytes?(): void;
  /** The collector has the whole answer, and the reader does not know it yet. May come twice. */
  onWhole?(): void;
  /** Once, when the stream is over; with the error when it broke or the agent left. */
  onEnd(error?: unknown): void;
}

/** Each event goes on as soon as it is whole, without what the recorder added; the collector sees it as it was. */
export function relayStream(
  body: ReadableStream<Uint8Array>,
  relay: StreamRelay,
): ReadableStream<Uint8Array> {
  const parser = new EventStreamParser();
  const transform = new TransformStream<Uint8Array, Uint8Array>({
    transform(bytes, controller) {
      relay.onBytes?.();
      enqueueAll(controller, parser.push(bytes), relay);
    },
    flush(controller) {
      const last = parser.end();
      if (last !== null) enqueueAll(controller, [last], relay);
      relay.onWhole?.();
    },
  });
  // A transform alone would not hear of a connection that breaks; the pipe does, on either side.
  body.pipeTo(transform.writable).then(
    () => relay.onEnd(),
    (error: unknown) => relay.onEnd(error ?? new Error("the stream was cancelled")),
  );
  return transform.readable;
}

function enqueueAll(
  controller: TransformStreamDefaultController<Uint8Array>,
  events: StreamEvent[],
  relay: StreamRelay,
): void {
  const parts = events.map((event) => relayedBytes(event, relay)).filter((part) => part !== null);
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  if (length > 0) controller.enqueue(concatenate(parts, length));
}

function relayedBytes(event: StreamEvent, { mask, collector, onWhole }: StreamRelay): Uint8Array | null {
  if (event.data === null) return event.raw;
  if (event.data.trim() === "[DONE]") {
    collector.done = true;
    onWhole?.();
    return event.raw;
  }
  const chunk = parseChunk(event.data);
  if (chunk === null) return event.raw;
  collector.add(chunk);
  const masked = maskChunk(event.data, chunk, mask);
  if (masked === null) return null;
  return masked === event.data ? event.raw : withData(event, masked);
}

function parseChunk(data: string): JsonObject | null {
  try {
    const chunk: unknown = JSON.parse(data);
    return isObject(chunk) ? chunk : null;
  } catch {
    return null;
  }
}
