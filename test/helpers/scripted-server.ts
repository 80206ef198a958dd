import type { Socket } from "bun";

export interface ScriptedServer {
  url: string;
  port: number;
  /** Whole requests as they came, by connection. */
  requests: string[][];
  /** Connections that are open now. */
  open(): number;
  /** Bytes that no connection has taken yet. */
  unsent(): number;
  stop(): void;
}

export interface ScriptedSocket {
  write(bytes: string | Uint8Array): void;
  /** Behind all that was written. */
  end(): void;
  reset(): void;
}

interface Connection {
  received: string;
  requests: string[];
  unsent: Uint8Array[];
  isEnding: boolean;
}

/** A server that answers with the bytes it is told to: `answer` gets each whole request and how many came before. */
export function startScriptedServer(
  answer: (socket: ScriptedSocket, index: number, request: string) => void | Promise<void>,
  { unix }: { unix?: string } = {},
): ScriptedServer {
  const connections: Connection[] = [];
  let count = 0;
  let open = 0;
  const handlers = {
    open(socket: Socket<Connection>) {
      open += 1;
      socket.data = { received: "", requests: [], unsent: [], isEnding: false };
      connections.push(socket.data);
    },
    close() {
      open -= 1;
    },
    drain: flush,
    data(socket: Socket<Connection>, bytes: Buffer) {
      socket.data.received += bytes.toString("latin1");
      const request = takeRequest(socket.data);
      if (request !== undefined) void answer(scriptedSocket(socket), count++, request);
    },
  };
  const server =
    unix === undefined
      ? Bun.listen<Connection>({ hostname: "127.0.0.1", port: 0, socket: handlers })
      : Bun.listen<Connection>({ unix, socket: handlers });
  const port = unix === undefined ? (server as Bun.TCPSocketListener<Connection>).port : 80;
  return {
    url: `http://127.0.0.1:${port}/v1/x`,
    port,
    get requests() {
      return connections.map(({ requests }) => requests);
    },
    open: () => open,
    unsent: () => connections.flatMap(({ unsent }) => unsent).reduce((sum, { length }) => sum + length, 0),
    stop: () => server.stop(true),
  };
}

function takeRequest(connection: Connection): string | undefined {
  const { received, requests } = connection;
  const headEnd = received.indexOf("\r\n\r\n") + 4;
  const length = Number(/content-length: (\d+)/.exec(received.slice(0, headEnd))?.[1] ?? 0);
  if (headEnd < 4 || received.length < headEnd + length) return undefined;
  connection.received = "";
  requests.push(received);
  return received;
}

function scriptedSocket(socket: Socket<Connection>): ScriptedSocket {
  return {
    write(part) {
      socket.data.unsent.push(Buffer.from(part as string));
      flush(socket);
    },
    end() {
      socket.data.isEnding = true;
      flush(socket);
    },
    reset: () => socket.terminate(),
  };
}

function flush(socket: Socket<Connection>): void {
  const { unsent, isEnding } = socket.data;
  while (unsent.length > 0) {
    const written = Math.max(0, socket.write(unsent[0]!));
    if (written < unsent[0]!.length) {
      unsent[0] = unsent[0]!.subarray(written);
      return;
    }
    unsent.shift();
  }
  if (isEnding) socket.end();
}
