import { afterEach, expect, test } from "bun:test";
import { adaptProxySpans } from "../../src/adapter/proxy-adapter.ts";
import { silentLogger } from "../../src/log.ts";
import type { FakeReply, FakeScript } from "../helpers/fake-vllm.ts";
import { replyAs, streamEvents } from "../helpers/fake-vllm.ts";
import type { ProxyFixture } from "../helpers/proxy-fixture.ts";
import { until } from "../helpers/processes.ts";
import { startProxyFixture } from "../helpers/proxy-fixture.ts";

const reply: FakeReply = {
  prompt_token_ids: [1, 2, 3],
  pieces: Array.from({ length: 6 }, (_, index) => ({ text: `word${index} `, token_ids: [index + 10] })),
};
const eventStream = { "content-type": "text/event-stream" };

let fixture: ProxyFixture;
function start(script: FakeScript, options: Parameters<typeof startProxyFixture>[1] = {}): ProxyFixture {
  fixture = startProxyFixture(script, options);
  return fixture;
}
afterEach(() => fixture.stop());

/** Three events, then nothing more until the client leaves. */
const stallingStream: FakeScript = (request) => ({
  headers: eventStream,
  parts: [...streamEvents(request, reply).slice(0, 3), "hang"],
});

async function readEvents(
  response: Response,
  count: number,
): Promise<ReadableStreamDefaultReader<Uint8Array>> {
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  let text = "";
  while (text.split("\n\n").length <= count) {
    const { done, value } = await reader.read();
    // Else a stream that ends early keeps this loop busy for ever.
    if (done) throw new Error(`the stream ended after ${JSON.stringify(text)}`);
    text += new TextDecoder().decode(value);
  }
  return reader;
}

async function expectAborted(
  { vllm, spans, proxy }: ProxyFixture,
  partial: string | undefined,
): Promise<void> {
  await vllm.requests[0]?.aborted;
  const [litellm] = await spans("litellm_request");
  expect(litellm?.status.status_code).toBe("ERROR");
  expect(litellm?.attributes).toMatchObject({
    "agl.call.aborted_by_client": true,
    "agl.call.token_exact": false,
    "agl.call.inexact_reason": "aborted_by_client",
  });
  const [raw] = await spans("raw_gen_ai_request");
  expect(raw?.attributes["llm.hosted_vllm.response_token_ids"]).toBe(partial);
  expect(proxy.statistics()).toMatchObject({ abortedByClient: 1, failed: 0, openCalls: 0 });
  const { triplets, dropped } = adaptProxySpans(await spans());
  expect([triplets, dropped.map(({ reason }) => reason)]).toEqual([[], ["aborted_by_client"]]);
}

// O09
test("an agent that closes a stream: the model server is told, the part is recorded and never trained", async () => {
  const { post } = start(stallingStream);
  const controller = new AbortController();
  const response = await post({ stream: true }, { signal: controller.signal });
  await readEvents(response, 3);
  controller.abort();
  await expectAborted(fixture, "[[10, 11]]");
});

// O10
test("an agent that is killed in the middle of a stream", async () => {
  const { baseUrl } = start(stallingStream);
  const agent = Bun.spawn(
    ["curl", "-sN", `${baseUrl}/chat/completions`, "-d", '{"model":"agent-model","stream":true}'],
    { stdout: "pipe" },
  );
  await readEvents(new Response(agent.stdout), 3);
  agent.kill("SIGKILL");
  await expectAborted(fixture, "[[10, 11]]");
});

// O10
test.each([false, true])("an agent that leaves before the first byte, stream %p", async (stream) => {
  const { post, vllm } = start(() => ({ silenceMs: "for ever", parts: [] }));
  const controller = new AbortController();
  const call = post({ stream }, { signal: controller.signal }).catch(() => {});
  while (vllm.requests.length === 0) await Bun.sleep(1);
  controller.abort();
  await call;
  await expectAborted(fixture, undefined);
});

test("an agent that closes the connection at [DONE] has the whole answer", async () => {
  const { post, spans, proxy } = start((request) => ({
    headers: eventStream,
    parts: [...streamEvents(request, reply), "data: [DONE]\n\n", "hang"],
  }));
  const controller = new AbortController();
  const response = await post({ stream: true }, { signal: controller.signal });
  await readEvents(response, 8);
  controller.abort();
  const { triplets } = adaptProxySpans(await spans());
  expect(triplets.map((triplet) => triplet.response.token_ids)).toEqual([[10, 11, 12, 13, 14, 15]]);
  expect(proxy.statistics().abortedByClient).toBe(0);
});

test("a model server that breaks off in a stream: the agent's connection breaks too, the call failed", async () => {
  const { post, spans } = start((request) => ({
    headers: eventStream,
    parts: [...streamEvents(request, reply).slice(0, 3), 50],
    breakOff: true,
  }));
  const answer = async () => await (await post({ stream: true })).text();
  await expect(answer()).rejects.toThrow();
  const [litellm] = await spans("litellm_request");
  expect(litellm?.status.description).toContain("connection to the model server failed");
  expect(litellm?.attributes).toMatchObject({ "error.type": "upstream_unreachable" });
  expect(await spans("raw_gen_ai_request")).toEqual([]);
});

// A dead model server fails hundreds of calls at once; whoever watches needs one line.
test("of failures of one type only the first is a warning, and all are counted", async () => {
  const warnings: string[] = [];
  const infos: string[] = [];
  const log = {
    ...silentLogger,
    warning: (message: string) => void warnings.push(message),
    info: (message: string) => void infos.push(message),
  };
  const { post, proxy } = start(() => ({ status: 500, parts: ["{}"] }), { log });
  for (let call = 0; call < 3; call++) await (await post({})).text();
  await until("all are counted", () => proxy.statistics().failed === 3);
  expect(Object.values(proxy.statistics().failedBy)).toEqual([3]);
  expect(warnings).toHaveLength(1);
  expect(infos).toHaveLength(2);
});

test("a model server that is not there: 502, recorded as failed", async () => {
  const { post, spans, proxy, vllm } = start(() => ({ parts: [] }));
  const gone = "http://127.0.0.1:9/v1";
  await vllm.stop();
  proxy.setUpstreams([
    { modelName: "agent-model", model: "m", baseUrl: gone, checkpoint: "version_0", provider: "hosted_vllm" },
  ]);
  const response = await post({});
  expect(response.status).toBe(502);
  expect(await response.json()).toMatchObject({
    error: { code: "upstream_unreachable", type: "server_error" },
  });
  expect((await spans("litellm_request"))[0]?.status.status_code).toBe("ERROR");
});

test("a model server that stays silent: 504 after the limit, and its socket is closed", async () => {
  const { post, spans, vllm } = start(() => ({ silenceMs: "for ever", parts: [] }), {
    firstByteTimeoutMs: 50,
  });
  const response = await post({});
  expect(response.status).toBe(504);
  await vllm.requests[0]?.aborted;
  expect((await spans("litellm_request"))[0]?.attributes).toMatchObject({ "error.type": "upstream_timeout" });
});

test("the limit for the first byte does not cut a stream that flows slowly", async () => {
  const { post } = start(
    (request) => ({
      headers: eventStream,
      parts: streamEvents(request, reply).flatMap((event) => [event, 60]),
    }),
    { firstByteTimeoutMs: 300 },
  );
  expect(await (await post({ stream: true })).text()).toContain("word5");
});

test("an answer that is no JSON passes, and the call is a failed one", async () => {
  const { post, spans } = start(() => ({ headers: { "content-type": "text/html" }, parts: ["<p>hi</p>"] }));
  const response = await post({});
  expect([response.status, await response.text()]).toEqual([200, "<p>hi</p>"]);
  expect((await spans("litellm_request"))[0]?.attributes).toMatchObject({
    "error.type": "upstream_bad_answer",
  });
});

// O15
test("a slow reader does not make the proxy take in the whole answer", async () => {
  const filler = "x".repeat(64 * 1024);
  let written = 0;
  const { post, vllm } = start((request) => {
    const event = streamEvents(request, {
      ...reply,
      pieces: [{ text: filler, token_ids: [1] }],
    })[1] as string;
    const parts = Array.from({ length: 3_200 }, () => event);
    return {
      headers: eventStream,
      parts: new Proxy(parts, {
        get: (target, key) => {
          written = Math.max(written, Number(key) || 0);
          return Reflect.get(target, key) as unknown;
        },
      }),
    };
  });
  const controller = new AbortController();
  const response = await post({ stream: true }, { signal: controller.signal });
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  await reader.read();
  let before = -1;
  while (before !== written) {
    before = written;
    await Bun.sleep(200);
  }
  // What lies in the kernel's buffers of both connections differs from machine to machine; the answer is 200 MB.
  expect(written).toBeLessThan(1_600);
  controller.abort();
  await vllm.requests[0]?.aborted;
});

test("answers to many agents that leave at any time are each recorded once", async () => {
  const { post, proxy, spans } = start((request, index) => ({
    headers: eventStream,
    parts: streamEvents(request, { ...reply, id: `chatcmpl-${index}` }).flatMap((event) => [event, 1]),
  }));
  const calls = Array.from({ length: 40 }, async (_, index) => {
    const controller = new AbortController();
    if (index % 2 === 0) setTimeout(() => controller.abort(), index);
    const response = await post({ stream: true }, { signal: controller.signal }).catch(() => null);
    await response?.text().catch(() => {});
  });
  await Promise.all(calls);
  await proxy.flush(5_000);
  const roots = await spans("Received Proxy Server Request");
  expect(proxy.statistics()).toMatchObject({ openCalls: 0, waitingCalls: 0 });
  expect(new Set(roots.map(({ sequence_id }) => sequence_id)).size).toBe(roots.length);
  expect(roots.length).toBe(proxy.statistics().calls - proxy.statistics().refused.bad_request);
});

test("text at one byte per write is what it is in one piece", async () => {
  const emoji = { ...reply, pieces: [{ text: "漢字 😀 é", token_ids: [7, 8] }] };
  const { post, spans } = start((request) => {
    const whole = replyAs(request, emoji).parts.join("").replaceAll("\n", "\r\n").slice(0, -2);
    return {
      headers: eventStream,
      parts: [...new TextEncoder().encode(whole)].map((byte) => Uint8Array.of(byte)),
    };
  });
  expect(await (await post({ stream: true })).text()).toContain("漢字 😀 é");
  const [litellm] = await spans("litellm_request");
  expect(litellm?.attributes["gen_ai.completion.0.content"]).toBe("漢字 😀 é");
  expect(litellm?.attributes["agl.call.token_exact"]).toBe(true);
});

test("a fault of the proxy itself is not told as the model server's", async () => {
  const errors: string[] = [];
  const { post, proxy } = start((request) => replyAs(request, reply), {
    log: { ...silentLogger, error: (message) => void errors.push(message) },
    // Thrown where the answer is read, long after the server has given it.
    now: (() => {
      let calls = 0;
      return () => {
        calls += 1;
        if (calls === 2) throw new Error("a fault on purpose");
        return Date.now();
      };
    })(),
  });
  const response = await post({});
  expect(response.status).toBe(500);
  expect(await response.text()).not.toContain("model server");
  expect(errors).toContain("a request failed");
  expect(proxy.statistics()).toMatchObject({ failedBy: {}, openCalls: 0 });
});
