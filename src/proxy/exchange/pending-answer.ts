import type { SentRequest, ServerAnswer } from "./post.ts";
import { type Inflow, PushedBytes } from "./pushed-bytes.ts";
import { unpacked } from "./unpacked.ts";

/** A request on its way, and what comes back; whichever connection carries it. */
export class PendingAnswer implements SentRequest {
  readonly answer: Promise<ServerAnswer>;
  #resolve!: (answer: ServerAnswer) => void;
  #reject!: (error: unknown) => void;
  #carrier: Inflow | undefined;
  #body: PushedBytes | undefined;
  /** The connection has nothing more to do with it. */
  isOver = false;

  constructor() {
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  carriedBy(carrier: Inflow): void {
    this.#carrier = carrier;
  }

  /** Its head is there. */
  begin(status: number, headers: Headers): void {
    this.#body = new PushedBytes({
      pause: () => this.#whileCarried((carrier) => carrier.pause()),
      resume: () => this.#whileCarried((carrier) => carrier.resume()),
      close: () => this.#cut(),
    });
    this.#resolve({ status, headers, body: unpacked(this.#body, headers) });
  }

  push(bytes: Uint8Array): void {
    this.#body?.push(bytes);
  }

  /** It is whole. */
  end(): void {
    this.isOver = true;
    this.#body?.end();
  }

  /** It broke, after what came before. */
  fail(error: unknown): void {
    if (this.isOver) return;
    this.isOver = true;
    if (this.#body === undefined) this.#reject(error);
    else this.#body.end(error);
  }

  /** Also when it is whole, since its reader may not have begun. */
  abort(reason: unknown): void {
    this.#cut();
    if (this.#body === undefined) this.#reject(reason);
    else this.#body.abort(reason);
  }

  #cut(): void {
    this.#whileCarried((carrier) => carrier.close());
    this.isOver = true;
  }

  /** Afterwards the connection may carry another one. */
  #whileCarried(act: (carrier: Inflow) => void): void {
    if (!this.isOver && this.#carrier !== undefined) act(this.#carrier);
  }
}
