import type { AnswerReader } from "./answer-reader.ts";
import type { StreamEvent } from "./event-stream.ts";
import { EventStreamParser } from "./event-stream.ts";
import { concatenate } from "./limited-body.ts";

export interface StreamRelay {
  reader: AnswerReader;
  onBytes?(): void;
  /** The reader has the whole answer, and the agent does not know it yet: its end waits for this. May come twice. */
  onWhole?(): Promise<unknown> | void;
  /** Once, when the stream is over; with the error when it broke or the agent left. */
  onEnd(error?: unknown): void;
}

/** Each event goes on as soon as it is whole, as its reader shows it. */
export function relayStream(
  body: ReadableStream<Uint8Array>,
  relay: StreamRelay,
): ReadableStream<Uint8Array> {
  return prepareRelay(relay)(body);
}

/** The same in two steps, since the first can be done before there is a stream. */
export function prepareRelay(
  relay: StreamRelay,
): (body: ReadableStream<Uint8Array>) => ReadableStream<Uint8Array> {
  const parser = new EventStreamParser();
  const transform = new TransformStream<Uint8Array, Uint8Array>({
    transform(bytes, controller) {
      relay.onBytes?.();
      return enqueueAll(controller, parser.push(bytes), relay);
    },
    async flush(controller) {
      const last = parser.end();
      if (last !== null) await enqueueAll(controller, [last], relay);
      await relay.onWhole?.();
      const rest = relay.reader.end?.() ?? null;
      if (rest !== null) controller.enqueue(rest);
    },
  });
  return (body) => {
    // A transform alone would not hear of a connection that breaks; the pipe does, on either side.
    body.pipeTo(transform.writable).then(
      () => relay.onEnd(),
      (error: unknown) => relay.onEnd(error ?? new Error("the stream was cancelled")),
    );
    return transform.readable;
  };
}

function enqueueAll(
  controller: TransformStreamDefaultController<Uint8Array>,
  events: StreamEvent[],
  { reader, onWhole }: StreamRelay,
): Promise<void> | void {
  const shown = shownOf(events, reader);
  // Waiting costs a turn of the event loop, so a token never does.
  const wait = reader.done ? onWhole?.() : undefined;
  if (wait !== undefined) return wait.then(() => enqueue(controller, shown));
  enqueue(controller, shown);
}

function shownOf(events: StreamEvent[], reader: AnswerReader): Uint8Array {
  const parts: Uint8Array[] = [];
  let length = 0;
  for (const event of events) {
    const part = reader.event(event);
    if (part === null) continue;
    parts.push(part);
    length += part.length;
  }
  return concatenate(parts, length);
}

function enqueue(controller: TransformStreamDefaultController<Uint8Array>, bytes: Uint8Array): void {
  if (bytes.length > 0) controller.enqueue(bytes);
}
