import type { Socket } from "bun";

/**
 * One HTTP connection of its own, asked one question after another. `fetch` shares connections and allows
 * a process 256 questions at a time; these are as many as there are connections.
 */
export class KeptConnection {
  readonly #socket: Socket<undefined>;
  #received = "";
  #waiting: PromiseWithResolvers<unknown> | null = null;

  static async open(port: number): Promise<KeptConnection> {
    let connection: KeptConnection | undefined;
    const decoder = new TextDecoder();
    const socket = await Bun.connect({
      hostname: "127.0.0.1",
      port,
      socket: {
        data: (_socket, bytes) => connection?.take(decoder.decode(bytes, { stream: true })),
        close: () => connection?.fail("the connection was closed"),
        error: (_socket, error) => connection?.fail(error.message),
      },
    });
    connection = new KeptConnection(socket);
    return connection;
  }

  private constructor(socket: Socket<undefined>) {
    this.#socket = socket;
  }

  /** The JSON of the answer; ASCII both ways. */
  post(path: string, body: object): Promise<unknown> {
    const text = JSON.stringify(body);
    this.#waiting = Promise.withResolvers();
    this.#socket.write(
      `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n` +
        `content-length: ${text.length}\r\n\r\n${text}`,
    );
    return this.#waiting.promise;
  }

  close(): void {
    this.#waiting = null;
    this.#socket.end();
  }

  private take(text: string): void {
    this.#received += text;
    const headEnd = this.#received.indexOf("\r\n\r\n");
    const length = /^content-length: (\d+)/im.exec(this.#received)?.[1];
    const end = headEnd + 4 + Number(length);
    if (headEnd < 0 || length === undefined || this.#received.length < end) return;
    const [head, body] = [this.#received.slice(0, headEnd), this.#received.slice(headEnd + 4, end)];
    this.#received = this.#received.slice(end);
    if (/^HTTP\/1\.1 20[01] /.test(head)) this.#waiting?.resolve(JSON.parse(body));
    else this.fail(`${head.slice(0, head.indexOf("\r\n"))}: ${body}`);
  }

  private fail(reason: string): void {
    this.#waiting?.reject(new Error(reason));
  }
}
