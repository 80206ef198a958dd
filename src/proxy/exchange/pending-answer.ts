import { decodedSource } from "../../chat/byte-source.ts";
import type { ServerAnswer } from "./exchange.ts";
import { PushedBytes } from "./pushed-bytes.ts";

/** What an answer needs of the connection that carries it. */
export interface Carrier {
  pause(): void;
  resume(): void;
  close(): void;
}

/** A request on its way, and what comes back; whichever connection carries it. */
export class PendingAnswer {
  readonly answer: Promise<ServerAnswer>;
  readonly #signal: AbortSignal;
  #resolve!: (answer: ServerAnswer) => void;
  #reject!: (error: unknown) => void;
  #carrier: Carrier | undefined;
  #body: PushedBytes | undefined;
  /** The connection has nothing more to do with it. */
  isOver = false;

  constructor(signal: AbortSignal) {
    this.#signal = signal;
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    if (signal.aborted) this.#abort();
    else signal.addEventListener("abort", this.#abort);
  }

  carriedBy(carrier: Carrier): void {
    this.#carrier = carrier;
  }

  /** Its head is there. */
  begin(status: number, headers: Headers): void {
    this.#body = new PushedBytes({
      hold: () => this.#whileCarried((carrier) => carrier.pause()),
      release: () => this.#whileCarried((carrier) => carrier.resume()),
      cancel: () => this.#cut(),
    });
    const encoding = headers.get("content-encoding") ?? "identity";
    const body = encoding === "identity" ? this.#body : decodedSource(this.#body, encoding);
    this.#resolve({ status, headers, body });
  }

  push(bytes: Uint8Array): void {
    this.#body?.push(bytes);
  }

  /** It is whole. */
  end(): void {
    this.#over();
    this.#body?.end();
  }

  /** It broke, after what came before. */
  fail(error: unknown): void {
    if (this.isOver) return;
    this.#over();
    if (this.#body === undefined) this.#reject(error);
    else this.#body.end(error);
  }

  readonly #abort = (): void => {
    if (this.isOver) return;
    this.#cut();
    const { reason } = this.#signal;
    if (this.#body === undefined) this.#reject(reason);
    else this.#body.fail(reason);
  };

  #cut(): void {
    this.#whileCarried((carrier) => carrier.close());
    this.#over();
  }

  /** Afterwards the connection may carry another one. */
  #whileCarried(act: (carrier: Carrier) => void): void {
    if (!this.isOver && this.#carrier !== undefined) act(this.#carrier);
  }

  #over(): void {
    this.isOver = true;
    this.#signal.removeEventListener("abort", this.#abort);
  }
}
