import { afterEach, describe, expect, test } from "bun:test";
import { connect } from "node:net";
import type { Logger } from "../../src/log.ts";
import { silentLogger } from "../../src/log.ts";
import { serveStore } from "../../src/server/serve.ts";
import type { ServeStoreOptions, StoreServer } from "../../src/server/serve.ts";
import { memoryStore } from "../helpers/memory-store.ts";
import { storeRequests } from "../helpers/store-requests.ts";

const token = "only-for-this-test-0123456789";
const protectedStore = () => storeRequests({ access: { token } });
const withHeader = (authorization: string) => ({ authorization });

describe("a store with a token", () => {
  test.each([
    ["a bearer token", "/v1/agl/health", withHeader(`Bearer ${token}`)],
    ["a bearer token, written otherwise", "/v1/agl/health", withHeader(`bearer  ${token}`)],
    ["a password of any user", "/v1/agl/health", withHeader(`Basic ${btoa(`anybody:${token}`)}`)],
    ["a path before the path", `/t/${token}/v1/agl/health`, {}],
    ["a path, beside a header of something else", `/t/${token}/v1/agl/health`, withHeader("Bearer other")],
  ])("lets in who shows it as %s", async (_how, path, headers) => {
    const answer = await protectedStore().send("GET", path, undefined, headers);
    expect(answer).toMatchObject({ status: 200, body: { status: "ok" } });
  });

  test.each([
    ["nothing", "/v1/agl/health", {}],
    ["another token", "/v1/agl/health", withHeader(`Bearer ${token}x`)],
    ["its beginning", "/v1/agl/health", withHeader(`Bearer ${token.slice(0, -1)}`)],
    ["another scheme", "/v1/agl/health", withHeader(`Digest ${token}`)],
    ["an empty one", "/v1/agl/health", withHeader("Bearer ")],
    ["another one in the path", `/t/${token}x/v1/agl/health`, {}],
    ["an empty one in the path", "/t//v1/agl/health", {}],
    ["a parameter", `/v1/agl/health?token=${token}`, {}],
    ["nothing, for a path that does not exist", "/v1/nothing", {}],
    ["nothing, for the metrics", "/v1/prometheus", {}],
  ])("turns away who shows %s, and says what to do", async (_what, path, headers) => {
    const answer = await protectedStore().send("GET", path, undefined, headers);
    expect(answer.status).toBe(401);
    expect(answer.headers.get("www-authenticate")).toContain("Bearer");
    expect(answer.body.detail).toMatch(/Bearer TOKEN.*\/t\/TOKEN|is not this store's/);
    expect(answer.text).not.toContain(token);
  });

  test("every route is behind it, and works behind the path, OTLP and redirects too", async () => {
    const { send, store } = protectedStore();
    const behind = (path: string) => `/t/${token}${path}`;
    for (const path of ["/v1/agl/queues/rollouts/enqueue", "/v1/traces", "/v1/agl/spans/batch"]) {
      expect((await send("POST", path, "{}")).status).toBe(401);
    }
    const body = { rollouts: [{ input: 1 }] };
    expect((await send("POST", behind("/v1/agl/queues/rollouts/enqueue"), body)).status).toBe(201);
    expect((await store.statistics()).total_rollouts).toBe(1);
    const headers = { "content-type": "application/x-protobuf" };
    expect((await send("POST", behind("/v1/traces"), "", headers)).status).toBe(200);
    expect((await send("GET", behind("/v1/agl/nothing"))).status).toBe(404);
    expect((await send("DELETE", behind("/v1/agl/health"))).status).toBe(405);
    const redirect = await send("GET", behind("/v1/agl/rollouts/?limit=1"));
    expect(redirect.headers.get("location")).toBe(behind("/v1/agl/rollouts?limit=1"));
  });

  test("a store without one takes the addresses of clients that send one", async () => {
    const answer = await storeRequests().send("GET", `/t/${token}/v1/agl/health`);
    expect(answer.status).toBe(200);
  });
});

const servers: StoreServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.stop();
});

function serve(options: Partial<ServeStoreOptions> = {}): StoreServer {
  const server = serveStore({ store: memoryStore(), hostname: "127.0.0.1", port: 0, ...options });
  servers.push(server);
  return server;
}

/** The status line for a request written by hand. */
async function statusOf(server: StoreServer, head: string): Promise<string> {
  const socket = connect(server.port, "127.0.0.1");
  const answer = new Promise<string>((resolve, reject) => {
    socket.once("data", (data) => resolve(data.toString().split("\r\n")[0] as string));
    socket.once("error", reject);
    socket.once("close", () => resolve("closed"));
  });
  socket.write(`${head}\r\n\r\n`);
  const line = await answer;
  socket.destroy();
  return line;
}

describe("the names under which a store on loopback is asked", () => {
  const getAs = (host: string) => `GET /v1/agl/health HTTP/1.1\r\nHost: ${host}`;

  test.each([
    "127.0.0.1:4747",
    "127.0.0.1",
    "localhost:4747",
    "LOCALHOST",
    "store.localhost",
    "[::1]:4747",
    "box.local:80",
  ])("%s is answered", async (host) => {
    const server = serve({ allowedHosts: ["box.local"] });
    expect(await statusOf(server, getAs(host))).toBe("HTTP/1.1 200 OK");
  });

  // A page of evil.example, whose name was pointed at 127.0.0.1 meanwhile, would be of the same origin.
  test.each([
    "evil.example",
    "evil.example:4747",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "10.0.0.1",
  ])("%s is not", async (host) => {
    expect(await statusOf(serve(), getAs(host))).toBe("HTTP/1.1 403 Forbidden");
  });

  test("the refusal names the flag that would allow it", async () => {
    const answer = await storeRequests({ access: { hostNames: [] } }).send(
      "GET",
      "/v1/agl/health",
      undefined,
      {
        host: "box.local",
      },
    );
    expect(answer.body.detail).toBe(
      'This store is not reached as "box.local": use 127.0.0.1, or start it with --allowed-host NAME',
    );
  });
});

describe("web pages of elsewhere", () => {
  const body = { rollouts: [{ input: 1 }] };
  const from = (origin: string) => ({ origin, host: "127.0.0.1:4747", "content-type": "text/plain" });

  test.each(["https://evil.example", "http://localhost:3000", "null", "http://127.0.0.1:4748"])(
    "one of %s writes nothing, though browsers would let it send a form",
    async (origin) => {
      const { post, store } = storeRequests();
      expect(await post("/queues/rollouts/enqueue", body, from(origin))).toMatchObject({
        status: 403,
        body: { detail: expect.stringContaining("--cors-origin") },
      });
      expect((await store.statistics()).total_rollouts).toBe(0);
    },
  );

  test("one of the store's own address, or of an origin that was given, does", async () => {
    const own = await storeRequests().post("/queues/rollouts/enqueue", body, from("http://127.0.0.1:4747"));
    expect(own.status).toBe(201);
    const given = storeRequests({ access: { corsOrigins: ["http://localhost:3000"] } });
    const answer = await given.post("/queues/rollouts/enqueue", body, from("http://localhost:3000"));
    expect(answer.status).toBe(201);
  });
});

describe("listening where other machines reach it", () => {
  test.each(["0.0.0.0", "::", "192.168.0.7", "box.local"])("on %s is refused without a token", (hostname) => {
    const refused = () => serve({ hostname });
    expect(refused).toThrow("there is no token");
  });

  test("with a token it is served, under any name", async () => {
    const server = serve({ hostname: "0.0.0.0", token });
    const head = (line: string) => `GET /v1/agl/health HTTP/1.1\r\nHost: any.name.example\r\n${line}`;
    expect(await statusOf(server, head(`Authorization: Bearer ${token}`))).toBe("HTTP/1.1 200 OK");
    expect(await statusOf(server, head("Accept: */*"))).toBe("HTTP/1.1 401 Unauthorized");
  });

  test("an address that is not this machine's is refused in words", () => {
    expect(() => serve({ hostname: "192.0.2.7", token })).toThrow(/cannot listen on port 0 of 192\.0\.2\.7/);
  });
});

test("neither the log nor the access log shows a token, the right one or a wrong one, and one request is one line", async () => {
  const lines: string[] = [];
  const note = (message: string, fields?: Record<string, unknown>) =>
    void lines.push(`${message} ${Object.values(fields ?? {}).join(" ")}`);
  const log: Logger = { ...silentLogger, info: note, warning: note, error: note };
  const server = serve({ token, log, accessLog: log });
  await fetch(`${server.url}/t/${token}/v1/agl/health`);
  await fetch(`${server.url}/t/wrong-${token}/v1/agl/health`);
  await fetch(`${server.url}/%74/${token}/v1/agl/health`);
  await fetch(`${server.url}/v1/agl/health?token=${token}`, {
    headers: { authorization: `Bearer ${token}` },
  });
  await fetch(`${server.url}/t/${token}/v1/agl/rollouts/a%0Aforged%20line`);
  expect(lines).toHaveLength(6);
  expect(lines.join("\n")).not.toContain(token);
  expect(lines[0]).toMatch(/^GET \/v1\/agl\/health 200 [\d.]+ 127\.0\.0\.1$/);
  expect(lines[1]).toMatch(
    /^requests are turned away; of a thousand one is told 401 GET \/v1\/agl\/health 127\.0\.0\.1 1$/,
  );
  expect(lines.at(-1)).toMatch(/^GET \/v1\/agl\/rollouts\/a%0Aforged%20line 200/);
});
