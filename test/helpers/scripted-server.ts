import type { Socket } from "bun";

export interface ScriptedServer {
  url: string;
  port: number;
  /** Whole requests as they came, by connection. */
  requests: string[][];
  /** Connections that are open now. */
  open(): number;
  stop(): void;
}

export interface ScriptedSocket {
  write(bytes: string | Uint8Array): void;
  /** In the order written, behind all that. */
  end(): void;
  reset(): void;
}

/** A server that answers with the bytes it is told to: `answer` gets each whole request and how many came before. */
export function startScriptedServer(
  answer: (socket: ScriptedSocket, index: number, request: string) => void | Promise<void>,
  options: { unix?: string } = {},
): ScriptedServer {
  const requests: string[][] = [];
  let count = 0;
  let open = 0;
  interface State {
    received: string;
    mine: string[];
    unsent: Uint8Array[];
    ending: boolean;
  }
  const encoder = new TextEncoder();
  const flush = (socket: Socket<State>) => {
    const { unsent } = socket.data;
    while (unsent.length > 0) {
      const written = Math.max(0, socket.write(unsent[0]!));
      if (written < unsent[0]!.length) {
        unsent[0] = unsent[0]!.subarray(written);
        return;
      }
      unsent.shift();
    }
    if (socket.data.ending) socket.end();
  };
  const handlers = {
    open(socket: Socket<State>) {
      open += 1;
      const mine: string[] = [];
      requests.push(mine);
      socket.data = { received: "", mine, unsent: [], ending: false };
    },
    close() {
      open -= 1;
    },
    drain: flush,
    data(socket: Socket<State>, bytes: Buffer) {
      const { data } = socket;
      data.received += bytes.toString("latin1");
      const [head = "", body] = data.received.split("\r\n\r\n", 2);
      const length = Number(/content-length: (\d+)/.exec(head)?.[1] ?? 0);
      if (body === undefined || data.received.length < head.length + 4 + length) return;
      const request = data.received;
      data.received = "";
      data.mine.push(request);
      void answer(
        {
          write(part) {
            data.unsent.push(typeof part === "string" ? encoder.encode(part) : part);
            flush(socket);
          },
          end() {
            data.ending = true;
            flush(socket);
          },
          reset: () => socket.terminate(),
        },
        count++,
        request,
      );
    },
  };
  const server =
    options.unix === undefined
      ? Bun.listen<State>({ hostname: "127.0.0.1", port: 0, socket: handlers })
      : Bun.listen<State>({ unix: options.unix, socket: handlers });
  const port = options.unix === undefined ? (server as Bun.TCPSocketListener<State>).port : 80;
  return {
    url: `http://127.0.0.1:${port}/v1/x`,
    port,
    requests,
    open: () => open,
    stop: () => server.stop(true),
  };
}
