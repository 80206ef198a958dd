import type { Socket } from "bun";

export interface HttpAnswer {
  status: number;
  /** The bytes of the body; valid until the next request of this connection. */
  body: Buffer;
}

interface Waiting {
  resolve(answer: HttpAnswer): void;
  reject(error: Error): void;
}

const headEnd = Buffer.from("\r\n\r\n");
/** Servers close connections that are idle for longer (uvicorn after 5 s): they are not used again. */
const maxIdleMs = 4_000;

/**
 * One kept-alive HTTP/1.1 connection, one request at a time; apart from the code that is measured. Costs a load process
 * less than half of what `fetch` does, so that on two cores the server is what is measured, and has no limit of 256
 * requests in flight.
 */
export class LoadConnection {
  readonly #port: number;
  #socket: Socket | undefined;
  #lastUsed = 0;
  #waiting: Waiting | undefined;
  #received: Buffer = Buffer.alloc(0);
  #unsent: Buffer | undefined;

  static async open(port: number): Promise<LoadConnection> {
    const connection = new LoadConnection(port);
    await connection.#connect();
    return connection;
  }

  constructor(port: number) {
    this.#port = port;
  }

  get(path: string): Promise<HttpAnswer> {
    return this.send(`GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n`);
  }

  post(path: string, body: string): Promise<HttpAnswer> {
    return this.send(postRequest(path, body));
  }

  /** The parsed answer; anything but a success is an error. */
  async json(method: "GET" | "POST", path: string, body?: unknown): Promise<any> {
    const sent = method === "GET" ? this.get(path) : this.post(path, JSON.stringify(body ?? {}));
    const answer = await sent;
    const text = answer.body.toString();
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${text.slice(0, 300)}`);
    return JSON.parse(text);
  }

  /** A whole request, ready to be written. */
  async send(request: string): Promise<HttpAnswer> {
    if (this.#waiting !== undefined) throw new Error("a request is under way on this connection");
    if (this.#socket === undefined || performance.now() - this.#lastUsed > maxIdleMs) await this.#connect();
    return await new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#unsent = Buffer.from(request);
      this.#send();
    });
  }

  close(): void {
    this.#socket?.end();
  }

  async #connect(): Promise<void> {
    this.#socket?.end();
    // A socket that was replaced may still have something to say.
    const ofCurrent = (socket: Socket, act: () => void): void => {
      if (socket === this.#socket) act();
    };
    this.#socket = await Bun.connect({
      hostname: "127.0.0.1",
      port: this.#port,
      socket: {
        data: (socket, chunk) => ofCurrent(socket, () => this.#receive(chunk)),
        drain: (socket) => ofCurrent(socket, () => this.#send()),
        close: (socket) => ofCurrent(socket, () => this.#fail(new Error("the server closed the connection"))),
        error: (socket, error) => ofCurrent(socket, () => this.#fail(error)),
      },
    });
    this.#socket.setNoDelay(true);
    this.#lastUsed = performance.now();
  }

  #send(): void {
    if (this.#unsent === undefined || this.#socket === undefined) return;
    const written = this.#socket.write(this.#unsent);
    this.#unsent = written < this.#unsent.length ? this.#unsent.subarray(Math.max(0, written)) : undefined;
  }

  #receive(chunk: Buffer): void {
    this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk]);
    let answer: HttpAnswer | undefined;
    try {
      answer = readAnswer(this.#received);
    } catch (error) {
      this.#fail(error as Error);
      return;
    }
    if (answer === undefined) return;
    this.#received = Buffer.alloc(0);
    this.#lastUsed = performance.now();
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.resolve(answer);
  }

  #fail(error: Error): void {
    this.#socket = undefined;
    this.#received = Buffer.alloc(0);
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.reject(error);
  }
}

export function postRequest(path: string, body: string): string {
  const length = Buffer.byteLength(body);
  return `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n${body}`;
}

/** Undefined while it is incomplete. */
function readAnswer(bytes: Buffer): HttpAnswer | undefined {
  const end = bytes.indexOf(headEnd);
  if (end === -1) return undefined;
  const head = bytes.toString("latin1", 0, end);
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  if (length === undefined) throw new Error(`an answer without a length: ${head}`);
  const bodyStart = end + headEnd.length;
  const bodyEnd = bodyStart + Number(length);
  if (bytes.length < bodyEnd) return undefined;
  return { status: Number(head.slice(9, 12)), body: bytes.subarray(bodyStart, bodyEnd) };
}
