import type { AnswerReader } from "./answer-reader.ts";
import { type ByteReceiver, type ByteSource, cancelled, concatenate, streamOf } from "./byte-source.ts";
import type { StreamEvent } from "./event-stream.ts";
import { EventStreamParser } from "./event-stream.ts";

export interface StreamRelay {
  reader: AnswerReader;
  onBytes?(): void;
  /** The reader has the whole answer, and the agent does not know it yet: its end waits for this. May come twice. */
  onWhole?(): Promise<unknown> | void;
  /** Once, when the stream is over; with the error when it broke or the agent left. */
  onEnd(error?: unknown): void;
}

/** The events of a stream as `RelayedEvents` shows them. */
export function relayStream(source: ByteSource, relay: StreamRelay): ReadableStream<Uint8Array> {
  return streamOf(new RelayedEvents(source, relay));
}

/** The events of a stream, each as soon as it is whole, as its reader shows it. */
export class RelayedEvents implements ByteSource {
  readonly #source: ByteSource;
  readonly #relay: StreamRelay;
  readonly #parser = new EventStreamParser();
  #isOver = false;

  constructor(source: ByteSource, relay: StreamRelay) {
    this.#source = source;
    this.#relay = relay;
  }

  start(receiver: ByteReceiver): void {
    this.#source.start({
      bytes: (bytes) => this.#push(bytes, receiver),
      end: (error) => void this.#end(error, receiver),
    });
  }

  cancel(): void {
    this.#source.cancel();
    this.#over(cancelled());
  }

  #push(bytes: Uint8Array, receiver: ByteReceiver): Promise<unknown> | void {
    const { reader, onBytes, onWhole } = this.#relay;
    onBytes?.();
    let shown: Uint8Array;
    try {
      shown = shownOf(this.#parser.push(bytes), reader);
    } catch (error) {
      this.#source.cancel();
      return this.#break(error, receiver);
    }
    const show = () => (shown.length > 0 && !this.#isOver ? receiver.bytes(shown) : undefined);
    // Waiting costs a turn of the event loop, so a token never does.
    const wait = reader.done ? onWhole?.() : undefined;
    return wait === undefined ? show() : wait.then(show);
  }

  async #end(error: unknown, receiver: ByteReceiver): Promise<void> {
    if (error !== undefined) return this.#break(error, receiver);
    const { reader, onWhole } = this.#relay;
    try {
      const last = this.#parser.end();
      if (last !== null) showTo(receiver, shownOf([last], reader));
      await onWhole?.();
      if (this.#isOver) return;
      showTo(receiver, reader.end?.() ?? null);
    } catch (broken) {
      return this.#break(broken, receiver);
    }
    receiver.end();
    this.#over();
  }

  #break(error: unknown, receiver: ByteReceiver): void {
    if (this.#isOver) return;
    receiver.end(error);
    this.#over(error);
  }

  #over(error?: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#relay.onEnd(error);
  }
}

function showTo(receiver: ByteReceiver, bytes: Uint8Array | null): void {
  if (bytes !== null && bytes.length > 0) void receiver.bytes(bytes);
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
