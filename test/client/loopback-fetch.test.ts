import { join } from "node:path";
import { expect, test } from "bun:test";
import { isLoopback } from "../../src/client/loopback-fetch.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const folder = temporaryFolder();

test("with a dead proxy in the environment this machine is still reached", async () => {
  const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("answer") });
  const socket = join(folder, "server.sock");
  const unixServer = Bun.serve({ unix: socket, fetch: () => new Response("socket") });
  const dead = "http://127.0.0.1:9";
  const child = Bun.spawn(
    [
      process.execPath,
      join(import.meta.dir, "../helpers/fetch-behind-proxy.ts"),
      `http://127.0.0.1:${server.port}/`,
      `http://localhost:${server.port}/`,
      `http://localhost/|${socket}`,
      // Another host goes through the proxy, as it should.
      `http://192.0.2.1:${server.port}/`,
    ],
    { env: { HTTP_PROXY: dead, http_proxy: dead, HTTPS_PROXY: dead, ALL_PROXY: dead }, stdout: "pipe" },
  );
  const lines = (await new Response(child.stdout).text()).trim().split("\n");
  await server.stop(true);
  await unixServer.stop(true);
  expect(lines).toEqual([
    "unreachable answer",
    "unreachable answer",
    "socket socket",
    "unreachable unreachable",
  ]);
});

test.each([
  ["http://127.0.0.1:4747/x", true],
  ["http://127.8.9.10/", true],
  ["http://localhost/", true],
  ["http://LOCALHOST:1/", true],
  ["http://[::1]:4747/", true],
  ["http://127.0.0.1.example.org/", false],
  ["http://10.0.0.1/", false],
  ["https://store.example.org/localhost", false],
])("%s is loopback: %p", (url, expected) => {
  expect(isLoopback(url)).toBe(expected);
});
