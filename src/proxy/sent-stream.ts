import type { ByteReceiver, ByteSource } from "../chat/byte-source.ts";

/** Bun's own kind of stream, of which an HTTP answer needs neither a queue nor a request for each part. */
interface DirectController {
  /** A promise when the connection cannot take more for now. */
  write(bytes: Uint8Array): number | Promise<number>;
  flush(): void;
  close(): void;
}

/**
 * The body of an answer that Bun sends. Made before there is a source, since that takes a while; the source is started
 * at once then.
 */
export class SentStream implements ByteReceiver {
  readonly #readable: ReadableStream<Uint8Array>;
  #controller: DirectController | undefined;
  #source: ByteSource | undefined;
  #isLeft = false;
  /** What came before Bun asked for anything. */
  #early: Uint8Array[] = [];
  #begun: (() => void) | undefined;
  #end: { error?: unknown } | undefined;
  #ended: (() => void) | undefined;

  constructor() {
    const source = {
      type: "direct",
      pull: (controller: DirectController) => this.#begin(controller),
      cancel: () => this.#leave(),
    };
    this.#readable = new ReadableStream<Uint8Array>(source as unknown as UnderlyingDefaultSource<Uint8Array>);
  }

  /** Once. */
  of(source: ByteSource): ReadableStream<Uint8Array> {
    this.#source = source;
    source.start(this);
    return this.#readable;
  }

  bytes(bytes: Uint8Array): Promise<unknown> | void {
    if (this.#isLeft) return;
    if (this.#controller !== undefined) return this.#write(this.#controller, bytes);
    this.#early.push(bytes);
    return new Promise<void>((resolve) => (this.#begun = resolve));
  }

  end(error?: unknown): void {
    this.#end = error === undefined ? {} : { error };
    this.#ended?.();
  }

  /** The stream ends with the promise. */
  async #begin(controller: DirectController): Promise<void> {
    this.#controller = controller;
    for (const bytes of this.#early.splice(0)) void this.#write(controller, bytes);
    this.#begun?.();
    if (this.#end === undefined) await new Promise<void>((resolve) => (this.#ended = resolve));
    const { error } = this.#end ?? {};
    if (error !== undefined) throw error;
    if (!this.#isLeft) controller.close();
  }

  #write(controller: DirectController, bytes: Uint8Array): Promise<unknown> | void {
    const written = controller.write(bytes);
    controller.flush();
    if (written instanceof Promise) return written;
  }

  #leave(): void {
    this.#isLeft = true;
    this.#source?.cancel();
    this.end();
  }
}
