import { type ByteReceiver, type ByteSource, concatenate } from "../../chat/byte-source.ts";

/** Where the bytes come from. */
export interface Inflow {
  /** Nothing more for now. */
  pause(): void;
  resume(): void;
  /** Nothing more at all. */
  close(): void;
}

const maxQueuedBytes = 64 * 1024;

/**
 * The bytes of one answer, as a connection gets them. What comes while its receiver is not ready waits, and holds the
 * connection when that becomes too much.
 */
export class PushedBytes implements ByteSource {
  readonly #inflow: Inflow;
  #receiver: ByteReceiver | undefined;
  /** The receiver is not there yet, or busy. */
  #isBusy = true;
  #queue: Uint8Array[] = [];
  #queuedBytes = 0;
  #isHeld = false;
  #end: { error?: unknown } | undefined;
  #isOver = false;

  constructor(inflow: Inflow) {
    this.#inflow = inflow;
  }

  start(receiver: ByteReceiver): void {
    this.#receiver = receiver;
    this.#isBusy = false;
    this.#handOn();
  }

  cancel(): void {
    if (this.#isOver) return;
    this.#close();
    this.#inflow.close();
  }

  push(bytes: Uint8Array): void {
    if (this.#isOver) return;
    if (!this.#isBusy) return this.#give(bytes);
    this.#queue.push(bytes);
    this.#queuedBytes += bytes.length;
    if (this.#isHeld || this.#queuedBytes < maxQueuedBytes) return;
    this.#isHeld = true;
    this.#inflow.pause();
  }

  /** After what came before it. */
  end(error?: unknown): void {
    this.#end ??= error === undefined ? {} : { error };
    this.#handOn();
  }

  /** At once: nobody is left who would want what still waits. */
  abort(reason: unknown): void {
    if (this.#isOver) return;
    this.#end = { error: reason };
    this.#drop();
    this.#isBusy = this.#receiver === undefined;
    this.#handOn();
  }

  #handOn(): void {
    if (this.#isOver || this.#isBusy) return;
    if (this.#queue.length > 0) {
      const bytes = concatenate(this.#queue, this.#queuedBytes);
      this.#drop();
      this.#give(bytes);
      if (this.#isBusy) return;
    }
    if (this.#end !== undefined) {
      const { error } = this.#end;
      this.#close();
      this.#receiver?.end(error);
    } else if (this.#isHeld) {
      this.#isHeld = false;
      this.#inflow.resume();
    }
  }

  #give(bytes: Uint8Array): void {
    const busy = this.#receiver?.bytes(bytes);
    if (busy === undefined) return;
    this.#isBusy = true;
    const ready = () => {
      this.#isBusy = false;
      this.#handOn();
    };
    busy.then(ready, ready);
  }

  #close(): void {
    this.#isOver = true;
    this.#drop();
  }

  #drop(): void {
    this.#queue = [];
    this.#queuedBytes = 0;
  }
}
