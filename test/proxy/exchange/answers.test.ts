import { afterEach, describe, expect, test } from "bun:test";
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import fc from "fast-check";
import { collectBytes } from "../../../src/chat/byte-source.ts";
import { nearDestination } from "../../../src/proxy/exchange/destination.ts";
import { LoopbackConnections } from "../../../src/proxy/exchange/loopback-connections.ts";
import { type ScriptedServer, startScriptedServer } from "../../helpers/scripted-server.ts";

let server: ScriptedServer;
let connections = new LoopbackConnections();
afterEach(() => {
  connections.close();
  connections = new LoopbackConnections();
  server.stop();
});

async function ask(): Promise<{ status: number; headers: [string, string][]; body: string }> {
  const answer = await connections.send(nearDestination(server.url)!, { headers: {}, body: "{}" }).answer;
  const bytes = await collectBytes(answer.body, 1 << 20);
  const headers = [...answer.headers].toSorted();
  return { status: answer.status, headers, body: Buffer.from(bytes!).toString("latin1") };
}

async function fetched() {
  const answer = await fetch(server.url, { method: "POST", body: "{}", keepalive: false });
  const headers = [...answer.headers].toSorted();
  const body = Buffer.from(await answer.arrayBuffer()).toString("latin1");
  return { status: answer.status, headers, body };
}

/** Each piece in a segment of its own, as far as the system lets us. */
function play(pieces: Uint8Array[], ends: boolean): void {
  server = startScriptedServer(async (socket) => {
    for (const piece of pieces) {
      socket.write(piece);
      if (pieces.length > 1) await new Promise((resolve) => setImmediate(resolve));
    }
    if (ends) socket.end();
  });
}

interface Message {
  status: number;
  headers: [string, string][];
  parts: string[];
  framing: "length" | "chunked" | "close";
  interim: boolean;
}

function bytesOf({ status, headers, parts, framing, interim }: Message): Uint8Array {
  const body = parts.join("");
  const frame = {
    length: `Content-Length: ${body.length}\r\n`,
    chunked: "transfer-encoding: chunked\r\n",
    close: "Connection: close\r\n",
  }[framing];
  const fields = headers.map(([name, value]) => `${name}:  ${value} \r\n`).join("");
  const chunks = parts.map((part) => `${part.length.toString(16)};note=1\r\n${part}\r\n`).join("");
  const framed = framing === "chunked" ? `${chunks}0\r\nx-after: 1\r\n\r\n` : body;
  const before = interim ? "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" : "";
  return Buffer.from(`${before}HTTP/1.1 ${status} Fine\r\n${fields}${frame}\r\n${framed}`, "latin1");
}

const message = fc.record<Message>({
  status: fc.constantFrom(200, 201, 400, 404, 500, 599),
  headers: fc.array(
    fc.tuple(
      fc.constantFrom("x-one", "X-Two", "content-type"),
      fc.constantFrom("a", "text/event-stream; charset=utf-8", "caf\u00e9", ""),
    ),
    { maxLength: 3 },
  ),
  parts: fc.array(
    fc.constantFrom("a", "\r\n", "0\r\n\r\n", "data: {}\n\n", "HTTP/1.1 200 OK\r\n\r\n", "\u00e9\u0000"),
    {
      maxLength: 6,
    },
  ),
  framing: fc.constantFrom("length", "chunked", "close"),
  interim: fc.boolean(),
});

function cut(bytes: Uint8Array, places: number[]): Uint8Array[] {
  const at = [...new Set(places.map((place) => place % bytes.length))].toSorted((one, other) => one - other);
  return [0, ...at]
    .map((start, index) => bytes.subarray(start, at[index]))
    .filter(({ length }) => length > 0);
}

describe("an answer is read as fetch reads it", () => {
  test("however it is framed and cut", async () => {
    await fc.assert(
      fc.asyncProperty(message, fc.array(fc.nat(), { maxLength: 5 }), async (sent, places) => {
        play([bytesOf(sent)], sent.framing === "close");
        const expected = await fetched();
        server.stop();
        play(cut(bytesOf(sent), places), sent.framing === "close");
        expect(await ask()).toEqual(expected);
        expect(await ask()).toEqual(expected);
        expect(server.requests).toHaveLength(sent.framing === "close" ? 2 : 1);
        server.stop();
      }),
      { numRuns: 150 },
    );
  });

  test.each(["length", "chunked", "close"] as const)("cut at every byte, framed by %s", async (framing) => {
    const bytes = bytesOf({
      status: 200,
      headers: [["content-type", "text/plain"]],
      parts: ["one\r\n", "0\r\n", "three"],
      framing,
      interim: true,
    });
    for (let at = 1; at < bytes.length; at += 1) {
      play([bytes.subarray(0, at), bytes.subarray(at)], framing === "close");
      expect(await ask()).toMatchObject({ status: 200, body: "one\r\n0\r\nthree" });
      server.stop();
    }
  });

  test.each([
    ["gzip", gzipSync],
    ["GZip", gzipSync],
    ["x-gzip", gzipSync],
    ["deflate", deflateSync],
    ["br", brotliCompressSync],
    ["zstd", zstdCompressSync],
  ] as const)("%s, although nobody asked for it, is unpacked", async (encoding, pack) => {
    const text = "x".repeat(1000);
    const packed = pack(text);
    const head = `HTTP/1.1 200 OK\r\ncontent-encoding: ${encoding}\r\ncontent-length: ${packed.length}\r\n\r\n`;
    play([Buffer.concat([Buffer.from(head), packed])], false);
    expect(await ask()).toMatchObject({ status: 200, body: text });
  });

  test.each([
    ["in an encoding that nobody knows", "200 OK", "content-encoding: utf-8\r\ncontent-length: 2", "hi"],
    ["in an encoding without a name", "200 OK", "content-encoding:\r\ncontent-length: 2", "hi"],
    ["packed, and of no bytes", "200 OK", "content-encoding: gzip\r\ncontent-length: 0", ""],
    ["that says its length twice", "200 OK", "content-length: 2\r\ncontent-length: 2", "hi"],
    ["without a body, by its status", "304 Not Modified", "content-length: 10", ""],
    ["without a body, but with chunks", "204 No Content", "transfer-encoding: chunked", ""],
  ])("%s", async (_, status, fields, body) => {
    play([Buffer.from(`HTTP/1.1 ${status}\r\n${fields}\r\n\r\n${body}`)], false);
    const expected = await fetched();
    expect(expected.body).toBe(body);
    for (let call = 0; call < 2; call += 1) expect(await ask()).toEqual(expected);
    expect(server.requests).toHaveLength(2);
  });

  test("after an interim head that tells a length", async () => {
    const interim = "HTTP/1.1 102 Processing\r\ncontent-length: 4\r\n\r\n";
    play([Buffer.from(`${interim}HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi`)], false);
    expect(await ask()).toMatchObject({ status: 200, body: "hi" });
  });

  test.each([
    ", said the model\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n",
    "HTTP/1.1 200 OK\r\n\r\nmore",
    "H",
  ])("with something behind it: %j", async (more) => {
    play([Buffer.from(`HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi${more}`)], false);
    for (let call = 0; call < 2; call += 1) expect(await ask()).toMatchObject({ status: 200, body: "hi" });
    expect(server.requests).toHaveLength(2);
  });

  const chunks = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n";
  test.each([
    ["HTTP/1.1 two hundred\r\n\r\n", "the answer is not HTTP/1.1"],
    ["HTTP/1.1 600 Odd\r\ncontent-length: 0\r\n\r\n", "the answer's status is 600"],
    ["HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n", "content-length is many"],
    ["HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nx", "the answer is not HTTP/1.1"],
    ["HTTP/1.1 200 OK\r\ncontent-length: 2, 2\r\n\r\nhi", "content-length is 2, 2"],
    ["HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n", "transfer-encoding is gzip, chunked"],
    ["HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", "another protocol"],
    [`${chunks}more\r\n\r\n`, "a chunk of the answer has no length"],
    [`${chunks}-5\r\nmore\r\n`, "a chunk of the answer has no length"],
    ["", "closed before the answer was complete"],
    ["HTTP/1.1 200 OK\r\n", "closed before the answer was complete"],
  ])("what is no answer is an error: %j", async (bytes, reason) => {
    play([Buffer.from(bytes)], !bytes.includes("\r\n\r\n"));
    await expect(ask()).rejects.toThrow(reason);
  });

  test("a large body may come in one read with the head", async () => {
    const bytes = bytesOf({
      status: 200,
      headers: [],
      parts: ["x".repeat(400_000)],
      framing: "length",
      interim: false,
    });
    play([bytes], false);
    for (let call = 0; call < 3; call += 1) expect((await ask()).body).toHaveLength(400_000);
    expect(server.requests).toHaveLength(1);
  });

  test.each([
    ["a head", `HTTP/1.1 200 OK\r\n${"x: y\r\n".repeat(200_000)}`],
    ["a chunk's length", `${chunks}2;${"x".repeat(1_200_000)}`],
    ["what follows the chunks", `${chunks}0\r\n${"x: y\r\n".repeat(200_000)}`],
  ])("%s without an end is an error", async (_, bytes) => {
    play([Buffer.from(bytes)], false);
    await expect(ask()).rejects.toThrow("the answer has a head or the like of more than 1048576 bytes");
  });

  test("the heads of its chunks may be long together", async () => {
    const note = "x".repeat(1_000);
    const many = Array.from({ length: 2_000 }, () => `1;${note}\r\nx\r\n`).join("");
    play([Buffer.from(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${many}0\r\n\r\n`)], false);
    expect((await ask()).body).toBe("x".repeat(2_000));
  });
});
