import { appendFileSync, existsSync, renameSync } from "node:fs";

/**
 * `bun socket-tap.ts SOCKET LOG`: a program of its own that steps between whoever connects to a Unix socket and the
 * server behind it, forwards every byte and writes it down: `{connection, direction: "in" | "out", bytes}` in base64.
 * It waits for the socket to appear.
 */
const [socketPath, logFile] = process.argv.slice(2) as [string, string];
const behind = `${socketPath}.real`;

const deadline = Date.now() + 300_000;
while (!existsSync(socketPath)) {
  if (Date.now() > deadline) process.exit(1);
  await Bun.sleep(5);
}
renameSync(socketPath, behind);

interface Connection {
  number: number;
  peer: Bun.Socket<Connection> | undefined;
  waiting: Uint8Array[];
  ended: boolean;
}

let connections = 0;

function record(connection: number, direction: "in" | "out", data: Uint8Array): void {
  appendFileSync(
    logFile,
    JSON.stringify({ connection, direction, bytes: Buffer.from(data).toString("base64") }) + "\n",
  );
}

/** Writes all of it, keeping what the socket does not take yet. */
function send(socket: Bun.Socket<Connection>, data: Uint8Array): void {
  if (socket.data.waiting.length > 0) {
    socket.data.waiting.push(data);
    return;
  }
  const written = socket.write(data);
  if (written < data.length) socket.data.waiting.push(data.subarray(Math.max(0, written)));
}

function drain(socket: Bun.Socket<Connection>): void {
  const waiting = socket.data.waiting.splice(0);
  for (const data of waiting) send(socket, data);
}

Bun.listen<Connection>({
  unix: socketPath,
  socket: {
    open(client) {
      client.data = { number: ++connections, peer: undefined, waiting: [], ended: false };
      client.pause();
      void Bun.connect<Connection>({
        unix: behind,
        data: { number: client.data.number, peer: client, waiting: [], ended: false },
        socket: {
          open(server) {
            client.data.peer = server;
            client.resume();
          },
          data(server, data) {
            record(server.data.number, "out", data);
            send(client, data);
          },
          drain,
          close() {
            client.end();
          },
          error() {
            client.end();
          },
        },
      }).catch(() => client.end());
    },
    data(client, data) {
      record(client.data.number, "in", data);
      if (client.data.peer !== undefined) send(client.data.peer, data);
    },
    drain,
    close(client) {
      client.data.peer?.end();
    },
    error() {},
  },
});
console.log("tapping");
