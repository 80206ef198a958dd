import { afterEach, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { collectBytes } from "../../../src/chat/byte-source.ts";
import { nearDestination } from "../../../src/proxy/exchange/destination.ts";
import { LoopbackConnections } from "../../../src/proxy/exchange/loopback-connections.ts";
import type { SentRequest, ServerAnswer, ServerRequest } from "../../../src/proxy/exchange/post.ts";
import { until } from "../../helpers/processes.ts";
import { type ScriptedServer, startScriptedServer } from "../../helpers/scripted-server.ts";
import { temporaryFolder } from "../../helpers/temporary-folder.ts";

const whole = (body: string) => `HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`;

let server: ScriptedServer;
let connections = new LoopbackConnections();
afterEach(() => {
  connections.close();
  connections = new LoopbackConnections();
  server.stop();
});

function open(changes: Partial<ServerRequest> = {}): SentRequest {
  const destination = nearDestination(server.url, changes.unix)!;
  return connections.send(destination, { headers: { "x-name": "value" }, body: "{}", ...changes });
}

function send(changes?: Partial<ServerRequest>): Promise<ServerAnswer> {
  return open(changes).answer;
}

async function textOf(answer: Promise<ServerAnswer>): Promise<string> {
  const bytes = await collectBytes((await answer).body, 1 << 26);
  return new TextDecoder().decode(bytes!);
}

const isAsked = (times: number) =>
  until(`asked ${times} times`, () => server.requests.flat().length === times);
const areOpen = (count: number) => until(`${count} connections are open`, () => server.open() === count);

describe("a connection", () => {
  test("carries one request after another, as HTTP writes them", async () => {
    server = startScriptedServer((socket, index) => socket.write(whole(`answer ${index}`)));
    expect(await textOf(send())).toBe("answer 0");
    expect(await textOf(send({ body: "caf\u00e9" }))).toBe("answer 1");
    const head = `POST /v1/x HTTP/1.1\r\nhost: 127.0.0.1:${server.port}\r\nconnection: keep-alive\r\nx-name: value\r\n`;
    expect(server.requests).toEqual([
      [`${head}content-length: 2\r\n\r\n{}`, `${head}content-length: 5\r\n\r\ncaf\u00c3\u00a9`],
    ]);
  });

  test("is not shared by requests at the same time", async () => {
    const answers: (() => void)[] = [];
    server = startScriptedServer((socket, index) => void answers.push(() => socket.write(whole(`${index}`))));
    const sent = [textOf(send()), textOf(send()), textOf(send())];
    await isAsked(3);
    for (const answer of answers) answer();
    expect((await Promise.all(sent)).toSorted()).toEqual(["0", "1", "2"]);
    expect(server.requests).toHaveLength(3);
  });

  test("is not used again when the server says so, or sends more than was asked for", async () => {
    const more = [
      whole("one").replace("OK\r\n", "OK\r\nconnection: close\r\n"),
      whole("two") + whole("stray"),
    ];
    server = startScriptedServer((socket, index) => socket.write(more[index] ?? whole("last")));
    expect([await textOf(send()), await textOf(send()), await textOf(send())]).toEqual([
      "one",
      "two",
      "last",
    ]);
    expect(server.requests).toHaveLength(3);
  });

  test("that gets bytes nobody asked for is closed", async () => {
    let write = () => {};
    server = startScriptedServer((socket) => {
      socket.write(whole("one"));
      write = () => socket.write(whole("stray"));
    });
    expect(await textOf(send())).toBe("one");
    write();
    await areOpen(0);
    expect(await textOf(send())).toBe("one");
  });

  test("over a Unix socket works the same", async () => {
    const unix = join(temporaryFolder(), "socket");
    server = startScriptedServer((socket) => socket.write(whole("one")), { unix });
    expect([await textOf(send({ unix })), await textOf(send({ unix }))]).toEqual(["one", "one"]);
    expect(server.requests).toHaveLength(1);
  });

  test("goes when its pool is closed, and so does one that was busy then", async () => {
    let answer = () => {};
    server = startScriptedServer((socket, index) => {
      if (index < 5) setTimeout(() => socket.write(whole("one")), 10);
      else answer = () => socket.write(whole("two"));
    });
    await Promise.all(Array.from({ length: 5 }, () => textOf(send())));
    const busy = textOf(send());
    await isAsked(6);
    expect(server.open()).toBe(5);
    connections.close();
    await areOpen(1);
    answer();
    expect(await busy).toBe("two");
    await areOpen(0);
  });
});

describe("a server that closes connections", () => {
  test("while they are idle is asked over a new one", async () => {
    server = startScriptedServer((socket) => {
      socket.write(whole("one"));
      socket.end();
    });
    expect(await textOf(send())).toBe("one");
    await areOpen(0);
    // Until the end has come to this side, too.
    await Bun.sleep(20);
    expect(await textOf(send())).toBe("one");
  });

  test.each(["at once", "after a while"])(
    "with a request on a used connection, %s, gets it once",
    async (moment) => {
      server = startScriptedServer(async (socket, index) => {
        if (index === 0) return socket.write(whole("one"));
        if (moment !== "at once") await Bun.sleep(50);
        socket.reset();
      });
      await textOf(send());
      const closed = {
        message: "the connection was closed before the answer was complete",
        code: "ECONNRESET",
      };
      await expect(send()).rejects.toMatchObject(closed);
      expect(server.requests.flat()).toHaveLength(2);
    },
  );

  test("in the middle of an answer: what came is handed on, then the error", async () => {
    server = startScriptedServer(async (socket) => {
      socket.write("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf");
      await Bun.sleep(20);
      socket.reset();
    });
    const { body } = await send();
    const seen: unknown[] = [];
    const over = new Promise<void>((resolve) => {
      body.start({
        bytes: (bytes) => void seen.push(new TextDecoder().decode(bytes)),
        end(error) {
          seen.push((error as Error).message);
          resolve();
        },
      });
    });
    await over;
    expect(seen).toEqual(["half", "the connection was closed before the answer was complete"]);
  });

  test("a server that is not there is named, with the system's code", async () => {
    server = startScriptedServer(() => {});
    server.stop();
    const reason = `cannot connect to 127.0.0.1:${server.port}: ECONNREFUSED`;
    await expect(send()).rejects.toMatchObject({ message: reason, code: "ECONNREFUSED" });
    const unix = "/nowhere/socket";
    await expect(send({ unix })).rejects.toMatchObject({ message: `cannot connect to ${unix}: ENOENT` });
  });
});

describe("a caller that leaves", () => {
  test.each(["while it connects", "while it waits", "in the middle"] as const)(
    "%s is done with at once",
    async (moment) => {
      const reason = new Error("left");
      server = startScriptedServer((socket) => {
        if (moment === "in the middle") socket.write("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf");
      });
      const exchange = open();
      const answer = textOf(exchange.answer);
      answer.catch(() => {});
      if (moment !== "while it connects") {
        await isAsked(1);
        await Bun.sleep(10);
      }
      exchange.abort(reason);
      await expect(answer).rejects.toBe(reason);
      const wasAsked = moment !== "while it connects";
      if (wasAsked) await areOpen(0);
      else await Bun.sleep(10);
      expect(server.requests.flat()).toHaveLength(wasAsked ? 1 : 0);
    },
  );

  test("after the answer disturbs nobody who has the connection then", async () => {
    let answer = () => {};
    server = startScriptedServer((socket, index) => {
      if (index === 0) socket.write(whole("one"));
      else answer = () => socket.write(whole("two"));
    });
    const first = open();
    const { body } = await first.answer;
    const next = textOf(send());
    await isAsked(2);
    first.abort(new Error("left"));
    body.cancel();
    answer();
    expect(await next).toBe("two");
    expect(server.requests).toHaveLength(1);
  });

  test("after an answer that nobody has read yet is heard by its reader", async () => {
    server = startScriptedServer((socket) => socket.write(whole("one")));
    const exchange = open();
    const { body } = await exchange.answer;
    exchange.abort(new Error("left"));
    await expect(collectBytes(body, 100)).rejects.toThrow("left");
  });

  test("an answer that is larger than its reader wants is cut off", async () => {
    server = startScriptedServer((socket) => socket.write(whole("x".repeat(1 << 20)).slice(0, -1)));
    const { body } = await send();
    expect(await collectBytes(body, 1000)).toBeNull();
    await areOpen(0);
  });
});

describe("a reader that is slow", () => {
  const size = 64 << 20;
  /** No two parts of it are the same. */
  const large = Buffer.from(Uint32Array.from({ length: size / 4 }, (_, index) => index).buffer);
  /** What fits into buffers of the system and of ours. */
  const most = 24 << 20;

  function serveLarge(): void {
    server = startScriptedServer((socket) => {
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${size}\r\n\r\n`);
      socket.write(large);
    });
  }

  test("holds the server, and misses nothing", async () => {
    serveLarge();
    const { body } = await send();
    const hash = new Bun.CryptoHasher("sha256");
    let parts = 0;
    let go = () => {};
    const over = Promise.withResolvers<void>();
    body.start({
      bytes(bytes) {
        hash.update(bytes);
        parts += 1;
        return parts === 1 ? new Promise<void>((resolve) => (go = resolve)) : undefined;
      },
      end: (error) => (error === undefined ? over.resolve() : over.reject(error)),
    });
    await until("the first part has come", () => parts === 1);
    await Bun.sleep(200);
    expect(parts).toBe(1);
    expect(server.unsent()).toBeGreaterThan(size - most);
    go();
    await over.promise;
    expect(hash.digest("hex")).toBe(new Bun.CryptoHasher("sha256").update(large).digest("hex"));
    // The connection is good for the next one.
    (await send()).body.cancel();
    expect(server.requests).toHaveLength(1);
  });

  test("that never begins to read holds it, too", async () => {
    serveLarge();
    const { body } = await send();
    await Bun.sleep(200);
    expect(server.unsent()).toBeGreaterThan(size - most);
    body.cancel();
    await areOpen(0);
  });
});

describe("idle connections", () => {
  test("of longer than the limit are not used, and are closed", async () => {
    connections = new LoopbackConnections({ maxIdleMs: 100 });
    server = startScriptedServer((socket) => socket.write(whole("one")));
    await textOf(send());
    await textOf(send());
    expect(server.requests).toHaveLength(1);
    await areOpen(0);
    await textOf(send());
    expect(server.requests).toHaveLength(2);
  });

  test("of less than the limit stay in use when older ones are closed", async () => {
    connections = new LoopbackConnections({ maxIdleMs: 800 });
    const answers: (() => void)[] = [];
    server = startScriptedServer((socket, index) => {
      const answer = () => socket.write(whole("one"));
      if (index < 4) answers.push(answer);
      else answer();
    });
    const sent = Array.from({ length: 4 }, () => textOf(send()));
    await isAsked(4);
    for (const answer of answers.splice(0, 2)) answer();
    await Bun.sleep(500);
    for (const answer of answers) answer();
    await Promise.all(sent);
    await areOpen(2);
    await textOf(send());
    expect(server.requests).toHaveLength(4);
    await areOpen(0);
  });

  test("of more than the limit are closed at once", async () => {
    connections = new LoopbackConnections({ maxIdlePerServer: 2 });
    const answers: (() => void)[] = [];
    server = startScriptedServer((socket) => void answers.push(() => socket.write(whole("one"))));
    const sent = Array.from({ length: 5 }, () => textOf(send()));
    await isAsked(5);
    for (const answer of answers) answer();
    await Promise.all(sent);
    await areOpen(2);
  });
});

describe("a request", () => {
  test("with an accent in a header arrives as it was written", async () => {
    server = startScriptedServer((socket) => socket.write(whole("one")));
    await textOf(send({ headers: { "x-name": "caf\u00e9" }, body: "caf\u00e9" }));
    expect(server.requests[0]![0]).toMatch(/x-name: caf\u00e9\r\n[^]*caf\u00c3\u00a9$/);
  });

  test.each(["a\r\nx-more: 1", "a\nb", "a\0b", "\u6f22"])("with the header %j is refused", async (value) => {
    server = startScriptedServer((socket) => socket.write(whole("one")));
    const reason = "the header x-name holds a character that cannot be sent";
    await expect(send({ headers: { "x-name": value } })).rejects.toThrow(reason);
    expect(server.requests).toHaveLength(0);
  });

  test("of many megabytes arrives whole", async () => {
    server = startScriptedServer((socket) => socket.write(whole("one")));
    const body = Array.from({ length: 2_000_000 }, (_, index) => index).join();
    await textOf(send({ body }));
    expect(server.requests[0]![0]!.endsWith(`content-length: ${body.length}\r\n\r\n${body}`)).toBe(true);
  });
});
