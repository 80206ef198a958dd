import { afterEach, describe, expect, test } from "bun:test";
import type { ProxyOptions } from "../../../src/proxy/proxy.ts";
import type { Upstream } from "../../../src/proxy/servers/upstreams.ts";
import { type FakeVllm, replyAs, startFakeVllm } from "../../helpers/fake-vllm.ts";
import { until } from "../../helpers/processes.ts";
import { type ProxyFixture, startProxyFixture, upstreamOf } from "../../helpers/proxy-fixture.ts";

const reply = { prompt_token_ids: [1, 2], pieces: [{ text: "ok", token_ids: [3] }] };

let fixture: ProxyFixture;
let second: FakeVllm | undefined;
afterEach(async () => {
  await fixture.stop();
  await second?.stop();
  second = undefined;
});

function start(options: Partial<ProxyOptions> = {}): ProxyFixture {
  fixture = startProxyFixture((request) => replyAs(request, reply), {
    holdMs: 60_000,
    firstPauseMs: 20,
    ...options,
  });
  return fixture;
}

const held = () => fixture.proxy.statistics().held;
const untilHeld = (count: number) => until(`${count} held`, () => held() === count);
const embeddings = { path: "/v1/embeddings" };

test("a call that waits for a server that cannot be reached has one number, however often it is tried", async () => {
  const { proxy, post, vllm, sink, spans } = start();
  proxy.setUpstreams([upstreamOf(vllm, { baseUrl: "http://127.0.0.1:1/v1" })]);
  const call = post({});
  await untilHeld(1);
  await until("tried again", () => (proxy.statistics().servers[0]?.failures ?? 0) >= 1);
  proxy.setUpstreams([upstreamOf(vllm)]);
  expect((await call).status).toBe(200);
  expect((await spans("litellm_request")).map(({ sequence_id }) => sequence_id)).toEqual([1]);
  const [next] = await sink.nextSequenceIds([{ rollout_id: "ro-1", attempt_id: "at-1" }]);
  expect(next?.sequence_id).toBe(2);
});

describe("while no model is served", () => {
  test("calls of every kind wait, and go on at once when there is one again, from its checkpoint", async () => {
    const { proxy, post, vllm, spans } = start();
    proxy.setUpstreams([]);
    const calls = [post({}), post({ stream: true }), post({}, { path: "/v1/chat/completions" })];
    calls.push(post({ input: "Hi" }, embeddings));
    await untilHeld(4);
    expect(vllm.requests).toHaveLength(0);
    proxy.setUpstreams([upstreamOf(vllm, { checkpoint: "version_1" })]);
    const answers = await Promise.all(calls);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    await answers[1]!.text();
    const raw = await spans("raw_gen_ai_request");
    expect(raw.map(({ attributes }) => attributes["agl.call.checkpoint"])).toEqual([
      "version_1",
      "version_1",
    ]);
    expect(proxy.statistics()).toMatchObject({ held: 0, heldCalls: 4, refused: { no_upstream: 0 } });
  });

  test("those whose time is over get 503 and when to ask again", async () => {
    const { proxy, post, vllm, sink } = start({ holdMs: 50 });
    proxy.setUpstreams([]);
    const answer = await post({});
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "5"]);
    expect((await answer.json()).error.code).toBe("no_upstream");
    expect(proxy.statistics()).toMatchObject({
      refused: { no_upstream: 1 },
      heldInVain: { over: 1 },
      openCalls: 0,
    });
    expect([vllm.requests.length, sink.questions]).toEqual([0, 0]);
  });

  test("without a time to hold none is held", async () => {
    const { proxy, post } = start({ holdMs: 0 });
    proxy.setUpstreams([]);
    expect((await post({})).status).toBe(503);
    expect(proxy.statistics().heldCalls).toBe(0);
  });

  test.each([{ maxHeldCalls: 2 }, { maxHeldBytes: 400 }])(
    "more than %j are refused at once",
    async (limit) => {
      const { proxy, post, vllm } = start(limit);
      proxy.setUpstreams([]);
      const calls = [post({}), post({})];
      await untilHeld(2);
      const refused = await post({});
      expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "5"]);
      expect((await refused.json()).error.code).toBe("too_many_held");
      expect(proxy.statistics()).toMatchObject({ held: 2, refused: { too_many_held: 1 } });
      proxy.setUpstreams([upstreamOf(vllm)]);
      expect((await Promise.all(calls)).map(({ status }) => status)).toEqual([200, 200]);
    },
  );

  test("an agent that leaves is out of the queue, and is never asked for", async () => {
    const { proxy, post, vllm } = start();
    proxy.setUpstreams([]);
    const controller = new AbortController();
    const left = post({}, { signal: controller.signal }).catch(() => "left");
    await untilHeld(1);
    controller.abort();
    expect(await left).toBe("left");
    await untilHeld(0);
    proxy.setUpstreams([upstreamOf(vllm)]);
    await post({});
    expect(vllm.requests).toHaveLength(1);
    expect(proxy.statistics().heldInVain.left).toBe(1);
  });

  test("who asked for a model that does not come back hears it then", async () => {
    const { proxy, post, vllm } = start();
    proxy.setUpstreams([]);
    const call = post({ model: "another" });
    await untilHeld(1);
    proxy.setUpstreams([upstreamOf(vllm)]);
    expect((await call).status).toBe(400);
  });

  test("a flush waits for no call that is held", async () => {
    const { proxy, post, server, vllm, spans } = start();
    proxy.setUpstreams([]);
    const call = post({});
    await untilHeld(1);
    const flushed = await fetch(`${server.url}/rollout/ro-1/attempt/at-1/flush`, { method: "POST" });
    expect(flushed.status).toBe(204);
    proxy.setUpstreams([upstreamOf(vllm)]);
    await call;
    expect(await spans("raw_gen_ai_request")).toHaveLength(1);
  });

  test("a proxy that stops sends them away with an answer", async () => {
    const { proxy, post, server } = start();
    proxy.setUpstreams([]);
    const calls = [post({}), post({}, embeddings)];
    await untilHeld(2);
    await server.stop();
    for (const answer of await Promise.all(calls)) {
      expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "5"]);
    }
    expect(proxy.statistics().heldInVain.stopping).toBe(2);
  });
});

describe("a server that is started again", () => {
  const servers: [string, Partial<Upstream>][] = [
    ["vLLM", {}],
    ["another kind", { provider: "openai" }],
  ];

  test.each(servers)("%s: calls wait until it is there again, and each is asked once", async (_, changes) => {
    const { proxy, post, vllm, spans } = start();
    proxy.setUpstreams([upstreamOf(vllm, changes)]);
    await post({});
    await vllm.stop();
    const calls = Array.from({ length: 20 }, () => post({}));
    await untilHeld(20);
    expect(proxy.statistics().servers).toMatchObject([{ state: "out", times_out: 1 }]);
    second = startFakeVllm(
      (request) => (request.path === "/health" ? { parts: [] } : replyAs(request, reply)),
      { port: vllm.port },
    );
    const answers = await Promise.all(calls);
    expect(answers.every(({ status }) => status === 200)).toBe(true);
    expect(second.requests.filter(({ path }) => path !== "/health")).toHaveLength(20);
    expect(await spans("raw_gen_ai_request")).toHaveLength(21);
    expect(proxy.statistics()).toMatchObject({ failed: 0, held: 0, heldCalls: 20 });
  });

  test("it does not come back: the agent hears what the connection says, and the call is a failed one", async () => {
    const { proxy, post, vllm, spans } = start({ holdMs: 80 });
    await vllm.stop();
    const answer = await post({});
    expect(answer.status).toBe(502);
    expect((await answer.json()).error.code).toBe("upstream_unreachable");
    expect(await spans("litellm_request")).toHaveLength(1);
    expect(proxy.statistics()).toMatchObject({ heldInVain: { over: 1 }, failed: 1 });
  });

  test("its place can be taken by another one in the list", async () => {
    const { proxy, post, vllm } = start();
    await vllm.stop();
    const call = post({});
    await untilHeld(1);
    second = startFakeVllm((request) => replyAs(request, reply));
    proxy.setUpstreams([upstreamOf(second)]);
    expect((await call).status).toBe(200);
  });

  test("a call that the server may have begun is never repeated", async () => {
    const { proxy, post, vllm } = start();
    let asked = 0;
    second = startFakeVllm(() => {
      asked += 1;
      return { parts: ['{"id":'], breakOff: true };
    });
    proxy.setUpstreams([upstreamOf(second)]);
    expect((await post({})).status).toBe(502);
    expect([asked, proxy.statistics().heldCalls, vllm.requests.length]).toEqual([1, 0, 0]);
  });
});
