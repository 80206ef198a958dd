import { afterEach, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { collectBytes } from "../../../src/chat/byte-source.ts";
import type { OpenExchange, ServerAnswer, ServerRequest } from "../../../src/proxy/exchange/exchange.ts";
import { LoopbackConnections } from "../../../src/proxy/exchange/loopback-connections.ts";
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

function open(changes: Partial<ServerRequest> = {}): OpenExchange {
  return connections.send(server.url, { headers: { "x-name": "value" }, body: "{}", ...changes });
}

function send(changes?: Partial<ServerRequest>): Promise<ServerAnswer> {
  return open(changes).answer;
}

async function textOf(answer: Promise<ServerAnswer>): Promise<string> {
  const bytes = await collectBytes((await answer).body, 1 << 26);
  return new TextDecoder().decode(bytes!);
}

async function until(isSo: () => boolean): Promise<void> {
  for (let waited = 0; waited < 2_000 && !isSo(); waited += 5) await Bun.sleep(5);
  expect(isSo()).toBe(true);
}

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
    await until(() => answers.length === 3);
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
    await until(() => server.open() === 0);
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
    await until(() => server.requests.flat().length === 6);
    expect(server.open()).toBe(5);
    connections.close();
    await until(() => server.open() === 1);
    answer();
    expect(await busy).toBe("two");
    await until(() => server.open() === 0);
  });
});

describe("a server that closes connections", () => {
  test("while they are idle is asked over a new one", async () => {
    server = startScriptedServer((socket) => {
      socket.write(whole("one"));
      socket.end();
    });
    expect(await textOf(send())).toBe("one");
    await until(() => server.open() === 0);
    expect(await textOf(send())).toBe("one");
  });

  test("just as the next request comes gets that once more, over a new one", async () => {
    server = startScriptedServer((socket, index) => {
      if (index === 1) socket.reset();
      else socket.write(whole(`${index}`));
    });
    expect(await textOf(send())).toBe("0");
    expect(await textOf(send())).toBe("2");
    expect(server.requests.map(({ length }) => length)).toEqual([2, 1]);
  });

  test("each time is not asked for ever", async () => {
    server = startScriptedServer((socket, index) => {
      if (index > 0) socket.reset();
      else socket.write(whole("one"));
    });
    await textOf(send());
    await expect(send()).rejects.toThrow("closed before the answer was complete");
    expect(server.requests.flat()).toHaveLength(3);
  });

  test("after it had the request for a while does not get that twice", async () => {
    server = startScriptedServer(async (socket, index) => {
      if (index === 0) return socket.write(whole("one"));
      await Bun.sleep(1_100);
      socket.reset();
    });
    await textOf(send());
    await expect(send()).rejects.toThrow("closed before the answer was complete");
    expect(server.requests.flat()).toHaveLength(2);
  });

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
    "%s closes the connection at once",
    async (moment) => {
      const reason = new Error("left");
      server = startScriptedServer((socket) => {
        if (moment === "in the middle") socket.write("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf");
      });
      const exchange = open();
      const answer = textOf(exchange.answer);
      answer.catch(() => {});
      if (moment !== "while it connects") {
        await until(() => server.requests.flat().length === 1);
        await Bun.sleep(10);
      }
      exchange.abort(reason);
      await expect(answer).rejects.toBe(reason);
      const wasAsked = moment !== "while it connects";
      if (wasAsked) await until(() => server.open() === 0);
      else await Bun.sleep(10);
      expect(server.requests.flat()).toHaveLength(wasAsked ? 1 : 0);
    },
  );

  test("after the answer disturbs nobody who has the connection then", async () => {
    server = startScriptedServer(
      (socket, index) => void setTimeout(() => socket.write(whole(`${index}`)), 20),
    );
    const first = open();
    const { body } = await first.answer;
    await Bun.sleep(10);
    const next = textOf(send());
    await Bun.sleep(5);
    first.abort(new Error("left"));
    body.cancel();
    expect(await next).toBe("1");
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
    await until(() => server.open() === 0);
  });
});

describe("a reader that is slow", () => {
  test("holds the server, and misses nothing", async () => {
    const size = 64 << 20;
    server = startScriptedServer((socket) => {
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${size}\r\n\r\n`);
      socket.write(Buffer.alloc(size, "x"));
    });
    const { body } = await send();
    let length = 0;
    let go = () => {};
    const over = Promise.withResolvers<void>();
    body.start({
      bytes(bytes) {
        length += bytes.length;
        return length === bytes.length ? new Promise<void>((resolve) => (go = resolve)) : undefined;
      },
      end: (error) => (error === undefined ? over.resolve() : over.reject(error)),
    });
    await until(() => length > 0);
    const first = length;
    const before = process.memoryUsage().rss;
    await Bun.sleep(200);
    expect(length).toBe(first);
    expect(process.memoryUsage().rss - before).toBeLessThan(16 << 20);
    go();
    await over.promise;
    expect(length).toBe(size);
    // The connection is good for the next one.
    (await send()).body.cancel();
    expect(server.requests).toHaveLength(1);
  });

  test("that never begins to read holds it, too", async () => {
    const part = Buffer.alloc(1 << 20, "x");
    let written = 0;
    server = startScriptedServer(async (socket) => {
      socket.write("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n");
      for (; written < 32; written += 1) {
        socket.write(part);
        await Bun.sleep(1);
      }
    });
    const { body } = await send();
    const before = process.memoryUsage().rss;
    await until(() => written === 32);
    await Bun.sleep(50);
    expect(process.memoryUsage().rss - before).toBeLessThan(16 << 20);
    body.cancel();
    await until(() => server.open() === 0);
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

  test("for a user whom the URL names says who that is, unless a key is there", async () => {
    server = startScriptedServer((socket) => socket.write(whole("one")));
    const url = server.url.replace("http://", "http://pa%20ul:%C3%BC%25@");
    await textOf(connections.send(url, { headers: {}, body: "{}" }).answer);
    await textOf(connections.send(url, { headers: { authorization: "Bearer key" }, body: "{}" }).answer);
    const said = server.requests.flat().map((request) => request.match(/^authorization: .*$/gm));
    const basic = Buffer.from("pa ul:\u00fc%").toString("base64");
    expect(said).toEqual([[`authorization: Basic ${basic}`], ["authorization: Bearer key"]]);
  });

  test("of many megabytes arrives whole", async () => {
    server = startScriptedServer((socket, _, request) => socket.write(whole(`${request.length}`)));
    const body = "x".repeat(20 << 20);
    const length = Number(await textOf(send({ body })));
    expect(length - body.length).toBeGreaterThan(100);
    expect(length - body.length).toBeLessThan(200);
  });
});
