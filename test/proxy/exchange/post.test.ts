import { afterEach, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { collectBytes } from "../../../src/chat/byte-source.ts";
import type { DirectFetchOptions } from "../../../src/client/loopback-fetch.ts";
import { LoopbackConnections } from "../../../src/proxy/exchange/loopback-connections.ts";
import { postOver } from "../../../src/proxy/exchange/post.ts";
import { type ScriptedServer, startScriptedServer } from "../../helpers/scripted-server.ts";
import { temporaryFolder } from "../../helpers/temporary-folder.ts";

const connections = new LoopbackConnections();
const fetched: { url: string; options: DirectFetchOptions | undefined }[] = [];
const post = postOver(connections, async (url, options) => {
  fetched.push({ url, options });
  return new Response("from afar", { status: 201 });
});
const request = { headers: { "x-name": "value" }, body: "{}" };
let server: ScriptedServer | undefined;

afterEach(() => {
  server?.stop();
  fetched.length = 0;
});

async function textOf(sent: ReturnType<typeof post>): Promise<string> {
  return new TextDecoder().decode((await collectBytes((await sent.answer).body, 100))!);
}

describe("a server on this machine is asked without fetch", () => {
  const near = (socket: { write(text: string): void }) =>
    socket.write("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnear");

  test.each(["127.0.0.1", "localhost"])("by %s", async (host) => {
    server = startScriptedServer(near);
    expect(await textOf(post(`http://${host}:${server.port}/v1`, request))).toBe("near");
    expect(fetched).toEqual([]);
  });

  test("by a Unix socket, whatever the host", async () => {
    const unix = join(temporaryFolder(), "socket");
    server = startScriptedServer(near, { unix });
    expect(await textOf(post("http://model.example/v1", { ...request, unix }))).toBe("near");
    expect(fetched).toEqual([]);
  });
});

test.each(["https://127.0.0.1/v1", "http://model.example/v1", "http://user:word@127.0.0.1/v1"])(
  "%s is asked with fetch",
  async (url) => {
    expect(await textOf(post(url, request))).toBe("from afar");
    expect(fetched).toMatchObject([{ url, options: { ...request, method: "POST", redirect: "manual" } }]);
  },
);

test("what fetch has under way ends when it is aborted", () => {
  const { abort } = post("https://model.example/v1", request);
  abort(new Error("left"));
  expect(fetched[0]!.options!.signal!.reason).toMatchObject({ message: "left" });
});
