import { afterEach, describe, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { StoreRequestError } from "../../src/errors.ts";
import { serveProxy } from "../../src/proxy/serve.ts";
import type { FakeReply } from "../helpers/fake-vllm.ts";
import { replyAs, startFakeVllm } from "../helpers/fake-vllm.ts";
import type { ProxyFixture } from "../helpers/proxy-fixture.ts";
import { startProxyFixture, upstreamOf } from "../helpers/proxy-fixture.ts";

const reply: FakeReply = { prompt_token_ids: [1], pieces: [{ text: "hi", token_ids: [2] }] };

let fixture: ProxyFixture;
function start(options: Parameters<typeof startProxyFixture>[1] = {}): ProxyFixture {
  fixture = startProxyFixture((request) => replyAs(request, reply), options);
  return fixture;
}
afterEach(() => fixture.stop());

const attempt = "/rollout/ro-1/attempt/at-1";

describe("chat completions", () => {
  test.each([
    [`${attempt}/v1/chat/completions`, {}],
    [`${attempt}/chat/completions?x=1`, {}],
    [`${attempt}/v1/chat/completions?x=1`, {}],
    ["/rollout/ro%2D1/attempt/at%2D1/v1/chat/completions", {}],
    ["/v1/chat/completions", { "x-rollout-id": "ro-1", "x-attempt-id": "at-1" }],
    ["/chat/completions", { "x-rollout-id": "ro-1", "x-attempt-id": "at-1" }],
  ])("%s belongs to the attempt", async (path, headers) => {
    const { post, spans, vllm } = start();
    expect((await post({}, { path, headers })).status).toBe(200);
    expect(vllm.requests.map((request) => request.path)).toEqual(["/v1/chat/completions"]);
    expect((await spans()).map((span) => [span.rollout_id, span.attempt_id])).toEqual(
      Array.from({ length: 3 }, () => ["ro-1", "at-1"]),
    );
  });

  test.each(["/v1/chat/completions", "/chat/completions"])(
    "%s alone is forwarded, counted and not recorded",
    async (path) => {
      const { post, sink, vllm, proxy } = start();
      const answer = await (await post({ stream: true }, { path })).text();
      expect(answer).toContain('"model":"agent-model"');
      expect(vllm.requests[0]?.body).toEqual({
        model: "models/version_0",
        stream: true,
        messages: [{ role: "user", content: "Hi" }],
      });
      await proxy.flush(4_000);
      expect([sink.spans, proxy.statistics().unattributed]).toEqual([[], 1]);
    },
  );

  test.each([
    ["/rollout/ro-9/attempt/at-1/v1/chat/completions"],
    ["/rollout/ro-1/attempt/at-9/v1/chat/completions"],
  ])("%s: ids nobody knows are refused before the model is asked", async (path) => {
    const { post, vllm, proxy } = start();
    const response = await post({}, { path });
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({ error: { code: "unknown_attempt" } });
    expect([vllm.requests, proxy.statistics().refused.unknown_attempt]).toEqual([[], 1]);
  });

  test("a store that answers 404 for a rollout does not know it", async () => {
    const { post, sink } = start();
    sink.queryAttempts = () => Promise.reject(new StoreRequestError(404, "no such rollout"));
    expect((await post({})).status).toBe(404);
  });

  test("the store is asked about an attempt once, also by calls at the same time", async () => {
    const { post, sink } = start();
    await Promise.all(Array.from({ length: 8 }, () => post({})));
    await post({});
    expect(sink.questions).toBe(1);
  });

  test.each([
    ["{", 400, /not JSON/],
    ["[]", 400, /not a JSON object/],
    ["{}", 400, /model is missing/],
    ['{"model": 7}', 400, /model is 7/],
    ['{"model": "agent-modle"}', 400, /"agent-modle": this proxy serves agent-model/],
  ])("%s is refused", async (body, status, message) => {
    const { baseUrl, vllm } = start();
    const response = await fetch(`${baseUrl}/chat/completions`, { method: "POST", body });
    expect(response.status).toBe(status);
    const answer = (await response.json()) as { error: { message: string } };
    expect(answer.error.message).toMatch(message);
    expect(vllm.requests).toEqual([]);
  });

  test("a body that is too large, or compressed", async () => {
    const { baseUrl, post } = start({ maxBodyBytes: 1_000 });
    expect((await post({ user: "x".repeat(2_000) })).status).toBe(413);
    const body = Bun.gzipSync('{"model":"agent-model"}');
    const headers = { "content-encoding": "gzip" };
    expect((await fetch(`${baseUrl}/chat/completions`, { method: "POST", body, headers })).status).toBe(415);
  });

  test("one id header without the other is refused", async () => {
    const { post } = start();
    const response = await post({}, { path: "/v1/chat/completions", headers: { "x-rollout-id": "ro-1" } });
    expect(response.status).toBe(400);
  });

  test("calls to an attempt that has ended are answered, marked stale and never trained", async () => {
    const { post, spans, sink, proxy } = start();
    Object.assign(sink.attempts[0] ?? {}, { status: "failed" });
    expect((await post({})).status).toBe(200);
    const [raw] = await spans("raw_gen_ai_request");
    expect(raw?.attributes["agl.call.stale"]).toBe(true);
    expect(proxy.statistics().stale).toBe(1);
  });

  test("an attempt replaced by a later one is stale, and flushing makes the proxy ask again", async () => {
    const { post, spans, sink, server } = start();
    await post({});
    Object.assign(sink.attempts[0] ?? {}, { status: "succeeded" });
    expect((await fetch(`${server.url}${attempt}/flush`, { method: "POST" })).status).toBe(204);
    await post({});
    const raws = await spans("raw_gen_ai_request");
    expect(raws.map(({ attributes }) => attributes["agl.call.stale"])).toEqual([undefined, true]);
  });
});

describe("other routes", () => {
  test.each(["/v1/models", "/models", `${attempt}/v1/models`, `${attempt}/models`])(
    "GET %s lists the names",
    async (path) => {
      const { server, vllm, proxy } = start();
      proxy.setUpstreams([upstreamOf(vllm), upstreamOf(vllm), upstreamOf(vllm, { modelName: "judge" })]);
      const models = (await (await fetch(server.url + path)).json()) as { data: { id: string }[] };
      expect(models.data.map(({ id }) => id)).toEqual(["agent-model", "judge"]);
      expect(vllm.requests).toEqual([]);
    },
  );

  test("health is about this process only", async () => {
    const { server, proxy, vllm } = start();
    proxy.setUpstreams([]);
    expect((await fetch(`${server.url}/health`)).status).toBe(200);
    expect(vllm.requests).toEqual([]);
  });

  test.each(["/v1/rerank", "/embeddings", `${attempt}/v1/score`, `${attempt}/messages/count_tokens`])(
    "POST %s passes unrecorded and is counted",
    async (path) => {
      const { post, sink, proxy, vllm } = start();
      const response = await post({ seed: 1 }, { path });
      expect(response.status).toBe(200);
      const route = path.replace(attempt, "").replace("/v1", "");
      expect(vllm.requests[0]?.path).toBe(`/v1${route}`);
      expect(vllm.requests[0]?.body).toMatchObject({ model: "models/version_0", seed: 1 });
      await proxy.flush(4_000);
      expect(sink.spans).toEqual([]);
      expect(proxy.statistics().unrecorded).toEqual({ [route.slice(1)]: 1 });
    },
  );

  test.each([
    "/collective_rpc",
    "/v1/load_lora_adapter",
    "/sleep",
    "/v1/../collective_rpc",
    "/v1/%2e%2e/sleep",
  ])("POST %s never reaches the model server", async (path) => {
    const { post, vllm } = start();
    expect((await post({}, { path })).status).toBe(404);
    expect(vllm.requests).toEqual([]);
  });
});

describe("flushing an attempt", () => {
  test("waits for calls in flight and for the store", async () => {
    const { post, server, sink } = start();
    const calls = [post({}), post({ stream: true })];
    await Promise.all(calls.map(async (call) => await (await call).text()));
    const response = await fetch(`${server.url}${attempt}/flush`, { method: "POST" });
    expect(response.status).toBe(204);
    expect(sink.spans.filter(({ name }) => name === "raw_gen_ai_request")).toHaveLength(2);
  });

  test("has a limit, and says so", async () => {
    const { post, server, sink } = start({ attemptFlushTimeoutMs: 20 });
    await post({});
    await fixture.proxy.flush(4_000);
    const write = sink.addSpans;
    sink.addSpans = () => Promise.reject(new Error("away"));
    await (await post({})).text();
    expect((await fetch(`${server.url}${attempt}/flush`, { method: "POST" })).status).toBe(504);
    sink.addSpans = write;
  });
});

describe("the store", () => {
  test("away before the call: 503 with a time to try again, the model is not asked", async () => {
    const { post, sink, vllm, proxy } = start();
    sink.broken = new Error("ECONNREFUSED");
    const response = await post({});
    expect([response.status, response.headers.get("retry-after")]).toEqual([503, "5"]);
    expect(vllm.requests).toEqual([]);
    sink.broken = null;
    expect((await post({})).status).toBe(200);
    expect(proxy.statistics().refused.store_unavailable).toBe(1);
  });

  test("away after the call: the answer is not delayed, and the call is stored when it is back", async () => {
    const { post, sink, spans } = start();
    const write = sink.addSpans;
    sink.addSpans = () => Promise.reject(new Error("away"));
    expect(await (await post({})).text()).toContain("hi");
    expect(sink.spans).toEqual([]);
    sink.addSpans = write;
    expect(await spans()).toHaveLength(3);
  });

  test("away for long: new calls are refused before answered ones are lost", async () => {
    const { post, sink, proxy, spans } = start({ maxWaitingCalls: 2 });
    const write = sink.addSpans;
    sink.addSpans = () => Promise.reject(new Error("away"));
    for (let call = 0; call < 2; call += 1) await (await post({})).text();
    while (proxy.statistics().waitingCalls < 2) await Bun.sleep(1);
    expect((await post({})).status).toBe(503);
    sink.addSpans = write;
    expect(await spans()).toHaveLength(6);
    expect(proxy.statistics()).toMatchObject({ callsLost: 0, waitingCalls: 0, waitingBytes: 0 });
    expect((await post({})).status).toBe(200);
  });
});

test("after close, calls are refused and what was waiting is counted as lost", async () => {
  const { post, sink, proxy } = start();
  sink.addSpans = () => Promise.reject(new Error("away"));
  await (await post({})).text();
  while (proxy.statistics().waitingCalls === 0) await Bun.sleep(1);
  await proxy.close();
  expect((await post({})).status).toBe(503);
  expect(proxy.statistics()).toMatchObject({ callsLost: 1, waitingCalls: 0 });
});

test("a model server on a Unix socket", async () => {
  const folder = await mkdtemp(join(tmpdir(), "agl-proxy-"));
  const unix = join(folder, "v.sock");
  const local = startFakeVllm((request) => replyAs(request, reply), { unix });
  try {
    const { post, proxy } = start();
    proxy.setUpstreams([upstreamOf(local, { unixSocket: unix, apiKey: "secret" })]);
    for (const stream of [false, true]) expect(await (await post({ stream })).text()).toContain("hi");
    expect(local.requests.map(({ headers }) => headers.get("authorization"))).toEqual([
      "Bearer secret",
      "Bearer secret",
    ]);
  } finally {
    await local.stop();
    await rm(folder, { recursive: true });
  }
});

test("several upstreams of one name share the calls of no rollout; the agent's key goes to none", async () => {
  const other = startFakeVllm((request) => replyAs(request, reply));
  try {
    const { post, proxy, vllm } = start();
    proxy.setUpstreams([upstreamOf(vllm), upstreamOf(other)]);
    const options = { path: "/v1/chat/completions", headers: { authorization: "Bearer agent" } };
    for (let call = 0; call < 30; call += 1) await post({}, options);
    expect(vllm.requests.length).toBeGreaterThan(0);
    expect(other.requests.length).toBeGreaterThan(0);
    expect(vllm.requests.every(({ headers }) => headers.get("authorization") === null)).toBe(true);
  } finally {
    await other.stop();
  }
});

test.each([
  [{ baseUrl: "http://h:1" }, /baseUrl is "http:\/\/h:1"/],
  [{ baseUrl: "h:1/v1" }, /baseUrl/],
  [{ checkpoint: "" }, /checkpoint is empty/],
])("an upstream that cannot work is refused: %j", (changes, message) => {
  const { proxy, vllm } = start();
  expect(() => proxy.setUpstreams([upstreamOf(vllm, changes)])).toThrow(message);
});

test("a port that is taken is said by name", () => {
  const { server } = start();
  expect(() => serveProxy({ proxy: fixture.proxy, hostname: "127.0.0.1", port: server.port })).toThrow(
    `127.0.0.1:${server.port}: the port is taken`,
  );
});
