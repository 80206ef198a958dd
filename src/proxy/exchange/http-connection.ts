import type { Socket } from "bun";
import { type AnswerHead, AnswerParser } from "./answer-parser.ts";
import type { Destination } from "./destination.ts";
import type { PendingAnswer } from "./pending-answer.ts";
import type { Inflow } from "./pushed-bytes.ts";

export interface ConnectionEvents {
  /** It can take another request. */
  onIdle(connection: HttpConnection): void;
  onClosed(connection: HttpConnection): void;
}

/** One HTTP/1.1 connection; one request at a time. */
export class HttpConnection implements Inflow {
  readonly #events: ConnectionEvents;
  readonly #parser = new AnswerParser((head) => this.#begin(head));
  #socket!: Socket;
  #pending: PendingAnswer | undefined;
  #unsent: Uint8Array | undefined;
  /** After the answer under way. */
  #keepsAlive = false;

  static async open({ socket, host }: Destination, events: ConnectionEvents): Promise<HttpConnection> {
    const connection = new HttpConnection(events);
    const handlers = {
      data: (_: Socket, bytes: Buffer) => connection.#receive(bytes),
      drain: () => connection.#flush(),
      close: () => connection.#closed(),
      error: (_: Socket, error: Error) => connection.#fail(error),
    };
    try {
      if ("unix" in socket) connection.#socket = await Bun.connect({ ...socket, socket: handlers });
      else {
        connection.#socket = await Bun.connect({ ...socket, socket: handlers });
        connection.#socket.setNoDelay(true);
      }
    } catch (error) {
      throw notConnected("unix" in socket ? socket.unix : host, error);
    }
    return connection;
  }

  private constructor(events: ConnectionEvents) {
    this.#events = events;
  }

  send(request: string | Uint8Array, pending: PendingAnswer): void {
    this.#pending = pending;
    pending.carriedBy(this);
    const written = this.#socket.write(request);
    if (written < Buffer.byteLength(request)) this.#keep(Buffer.from(request), written);
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  /** At once; what is under way on it is not told. */
  close(): void {
    this.#pending = undefined;
    this.#socket.terminate();
  }

  #flush(): void {
    if (this.#unsent !== undefined) this.#keep(this.#unsent, this.#socket.write(this.#unsent));
  }

  /** Less than 0 was written when the connection is closed, which its own event says, too. */
  #keep(request: Uint8Array, written: number): void {
    this.#unsent = written < request.length ? request.subarray(Math.max(0, written)) : undefined;
  }

  #receive(bytes: Buffer): void {
    const pending = this.#pending;
    // Nothing was asked.
    if (pending === undefined) return this.close();
    const failure = this.#parser.read(bytes);
    const body = this.#parser.takeBody();
    if (body !== null) pending.push(body);
    // Its reader may have left.
    if (this.#pending !== pending) return;
    if (failure !== null) this.#fail(failure);
    else if (this.#parser.isWhole) this.#finish(pending);
  }

  #begin({ status, headers, keepsAlive }: AnswerHead): void {
    this.#keepsAlive = keepsAlive;
    this.#pending?.begin(status, headers);
  }

  #finish(pending: PendingAnswer): void {
    const reusable = this.#keepsAlive && this.#unsent === undefined && !this.#parser.hasMore;
    this.#pending = undefined;
    if (reusable) {
      this.#parser.next();
      this.#socket.resume();
      this.#events.onIdle(this);
    } else this.close();
    pending.end();
  }

  #fail(error: Error): void {
    const pending = this.#pending;
    this.close();
    pending?.fail(error);
  }

  #closed(): void {
    this.#events.onClosed(this);
    if (this.#pending === undefined) return;
    this.#parser.end();
    if (this.#parser.isWhole) this.#finish(this.#pending);
    else this.#fail(connectionClosed());
  }
}

function notConnected(to: string, error: unknown): Error {
  const { code } = error as { code?: string };
  return Object.assign(new Error(`cannot connect to ${to}: ${code}`, { cause: error }), { code });
}

function connectionClosed(): Error {
  const message = "the connection was closed before the answer was complete";
  return Object.assign(new Error(message), { code: "ECONNRESET" });
}
