import type { Socket } from "bun";
import { HTTPParser } from "http-parser-js";
import { concatenate } from "../../chat/limited-body.ts";
import type { Carrier, PendingAnswer } from "./pending-answer.ts";
import type { Destination } from "./request-text.ts";

HTTPParser.encoding = "latin1";
// It takes the body for a head when one read brings both, so heads are limited here.
HTTPParser.maxHeaderSize = Number.POSITIVE_INFINITY;
const maxHeadBytes = 1024 * 1024;
/** A server that closed the connection before the request came says so by then; later, it may have begun with it. */
const maxUnseenMs = 1_000;
/** Tells the parser so, whatever the head says. */
const hasNoBody = 1;

export interface ConnectionEvents {
  /** It can take another request. */
  onIdle(connection: HttpConnection): void;
  onClosed(connection: HttpConnection): void;
}

/** One HTTP/1.1 connection; one request at a time. */
export class HttpConnection implements Carrier {
  readonly #events: ConnectionEvents;
  readonly #parser = new HTTPParser(HTTPParser.RESPONSE);
  #socket!: Socket;
  #pending: PendingAnswer | undefined;
  #whenUnseen: (() => void) | undefined;
  #sentAt = 0;
  #unsent: Uint8Array | undefined;
  /** Of the answer under way; heads of chunks and trailers count, too. */
  #headBytes = 0;
  #hasBegun = false;
  #isWhole = false;
  #keepsAlive = false;
  #pieces: Uint8Array[] = [];
  #pieceBytes = 0;
  #idleSince = performance.now();

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
    const parser = this.#parser;
    parser[HTTPParser.kOnHeadersComplete] = ({ statusCode, headers, shouldKeepAlive }) => {
      // Informational ones come before the answer; after it, nothing has been asked for.
      if (this.#isWhole) this.#keepsAlive = false;
      else if (statusCode >= 200) this.#begin(statusCode, headers, shouldKeepAlive);
      else if (statusCode === 101) throw new Error("the server changed to another protocol");
      return statusCode < 200 || statusCode === 204 || statusCode === 304 ? hasNoBody : undefined;
    };
    parser[HTTPParser.kOnBody] = (bytes, _, length) => {
      // By which the parser would go back, perhaps for ever.
      if (length < 0) throw badChunk();
      if (this.#isWhole) return;
      this.#pieces.push(bytes);
      this.#pieceBytes += bytes.length;
    };
    parser[HTTPParser.kOnMessageComplete] = () => {
      // It takes whatever is no number for the last chunk.
      if (Number.isNaN(stateOf(parser).body_bytes)) throw badChunk();
      this.#isWhole = this.#hasBegun;
    };
  }

  get idleMs(): number {
    return performance.now() - this.#idleSince;
  }

  /** `whenUnseen` instead of an error, when the server had closed the connection before. */
  send(request: string | Uint8Array, pending: PendingAnswer, whenUnseen?: () => void): void {
    this.#pending = pending;
    this.#whenUnseen = whenUnseen;
    if (whenUnseen !== undefined) this.#sentAt = performance.now();
    pending.carriedBy(this);
    const written = this.#socket.write(request);
    const length = Buffer.byteLength(request);
    if (written < length) this.#unsent = Buffer.from(request).subarray(Math.max(0, written));
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  /** At once; what is under way on it is not told. */
  close(): void {
    this.#pending = this.#whenUnseen = undefined;
    this.#socket.terminate();
  }

  #flush(): void {
    if (this.#unsent === undefined) return;
    const written = this.#socket.write(this.#unsent);
    // Less than 0 when the connection is closed, which its own event says, too.
    this.#unsent = written < this.#unsent.length ? this.#unsent.subarray(Math.max(0, written)) : undefined;
  }

  #receive(bytes: Buffer): void {
    const pending = this.#pending;
    // Nothing was asked.
    if (pending === undefined) return this.close();
    this.#whenUnseen = undefined;
    const failure = this.#parse(bytes);
    if (this.#pieceBytes > 0) {
      const whole = concatenate(this.#pieces, this.#pieceBytes);
      this.#pieces = [];
      this.#pieceBytes = 0;
      pending.push(whole);
    }
    if (this.#pending !== pending) return;
    if (failure !== null) {
      if (!this.#isWhole) return this.#fail(failure);
      // What follows an answer is no part of it.
      this.#keepsAlive = false;
    }
    if (this.#isWhole) this.#finish(pending);
  }

  #parse(bytes: Buffer): Error | null {
    try {
      const parsed = this.#parser.execute(bytes);
      if (parsed instanceof Error) return parsed;
      this.#headBytes = this.#pieceBytes > 0 ? 0 : this.#headBytes + bytes.length;
      if (this.#headBytes <= maxHeadBytes) return null;
      const place = this.#hasBegun ? "what is between the parts of the answer" : "the answer's head";
      return new Error(`${place} is too long`);
    } catch (error) {
      return error as Error;
    }
  }

  #begin(status: number, fields: string[], keepsAlive: boolean): void {
    const headers = new Headers();
    for (let at = 0; at < fields.length; at += 2) headers.append(fields[at]!, fields[at + 1]!);
    const length = headers.get("content-length");
    const { isChunked, body_bytes } = stateOf(this.#parser);
    if (length !== null && (!/^(\d+)(, \1)*$/.test(length) || Number.isNaN(body_bytes))) {
      throw new Error(`the answer's content-length is ${length}`);
    }
    const coding = isChunked ? null : headers.get("transfer-encoding");
    if (coding !== null) throw new Error(`the answer's transfer-encoding is ${coding}`);
    this.#hasBegun = true;
    this.#keepsAlive = keepsAlive;
    this.#pending?.begin(status, headers);
  }

  #finish(pending: PendingAnswer): void {
    const reusable = this.#keepsAlive && this.#unsent === undefined;
    this.#pending = undefined;
    this.#headBytes = 0;
    this.#hasBegun = this.#isWhole = false;
    if (reusable) {
      this.#idleSince = performance.now();
      this.#socket.resume();
      this.#events.onIdle(this);
    } else this.close();
    pending.end();
  }

  #fail(error: Error): void {
    const pending = this.#pending;
    const whenUnseen = this.#whenUnseen;
    this.close();
    if (whenUnseen !== undefined && performance.now() - this.#sentAt < maxUnseenMs) whenUnseen();
    else pending?.fail(error);
  }

  #closed(): void {
    this.#events.onClosed(this);
    // An answer without a length ends with its connection.
    const isEnd = this.#hasBegun && this.#parser.finish() === undefined && this.#isWhole;
    if (isEnd && this.#pending !== undefined) this.#finish(this.#pending);
    else this.#fail(connectionClosed());
  }
}

interface ParserState {
  isChunked: boolean;
  /** Left of the body, or of its chunk; null when that is not known. */
  body_bytes: number | null;
}

/** Which its types do not show. */
function stateOf(parser: object): ParserState {
  return parser as ParserState;
}

function badChunk(): Error {
  return new Error("a chunk of the answer has no length");
}

function notConnected(to: string, error: unknown): Error {
  const { code } = error as { code?: string };
  return Object.assign(new Error(`cannot connect to ${to}: ${code}`, { cause: error }), { code });
}

function connectionClosed(): Error {
  const message = "the connection was closed before the answer was complete";
  return Object.assign(new Error(message), { code: "ECONNRESET" });
}
