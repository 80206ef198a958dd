import type { AnswerReader } from "./answer-reader.ts";
import type { StreamEvent } from "./event-stream.ts";
import { EventStreamParser } from "./event-stream.ts";
import { concatenate } from "./limited-body.ts";

export interface StreamRelay {
  reader: AnswerReader;
  onBytes?(): void;
  /** The reader has the whole answer, and the agent does not know it yet. May come twice. */
  onWhole?(): void;
  /** Once, when the stream is over; with the error when it broke or the agent left. */
  onEnd(error?: unknown): void;
}

/** Each event goes on as soon as it is whole, as its reader shows it. */
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
      const rest = relay.reader.end?.() ?? null;
      if (rest !== null) controller.enqueue(rest);
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
  { reader, onWhole }: StreamRelay,
): void {
  const parts = events.map((event) => reader.event(event)).filter((part) => part !== null);
  if (reader.done) onWhole?.();
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  if (length > 0) controller.enqueue(concatenate(parts, length));
}
