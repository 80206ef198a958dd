import { afterEach, describe, expect, test } from "bun:test";
import OpenAI from "openai";
import { parsePythonLiteral } from "../../../src/protocol/python-literal.ts";
import { adaptProxySpans } from "../../../src/adapter/proxy-adapter.ts";
import type { FakeReply, FakeRequest, FakeScript } from "../../helpers/fake-vllm.ts";
import { errorReply, replyAs, streamEvents } from "../../helpers/fake-vllm.ts";
import type { ProxyFixture } from "../../helpers/proxy-fixture.ts";
import { startProxyFixture } from "../../helpers/proxy-fixture.ts";

const hello: FakeReply = {
  prompt_token_ids: [1, 2, 3],
  pieces: [
    { text: "Hé", token_ids: [10, 11] },
    { text: "llo 😀", token_ids: [12, 13, 14] },
    { text: "", token_ids: [2] },
  ],
};

const toolCall: FakeReply = {
  prompt_token_ids: [1, 2],
  finish_reason: "tool_calls",
  message: {
    role: "assistant",
    content: null,
    tool_calls: [{ id: "call-1", type: "function", function: { name: "add", arguments: '{"a": 1}' } }],
  },
  pieces: [
    { delta: {}, token_ids: [20] },
    {
      delta: {
        tool_calls: [{ index: 0, id: "call-1", type: "function", function: { name: "add", arguments: "" } }],
      },
      token_ids: [21, 22],
    },
    { delta: { tool_calls: [{ index: 0, function: { arguments: '{"a":' } }] }, token_ids: [23] },
    { delta: { tool_calls: [{ index: 0, function: { arguments: " 1}" } }] }, token_ids: [24] },
    { delta: {}, token_ids: [2] },
  ],
};

let fixture: ProxyFixture;
function start(script: FakeScript, options: Parameters<typeof startProxyFixture>[1] = {}): ProxyFixture {
  fixture = startProxyFixture(script, options);
  return fixture;
}
afterEach(() => fixture.stop());

/** What the agent would get without the proxy, under the name it uses for the model. */
async function direct(body: object): Promise<string> {
  const response = await fetch(`${fixture.vllm.baseUrl}/chat/completions`, {
    method: "POST",
    body: JSON.stringify({ model: "agent-model", messages: [{ role: "user", content: "Hi" }], ...body }),
  });
  return await response.text();
}

describe("the agent gets exactly what the model server would have sent it", () => {
  for (const reply of [hello, toolCall]) {
    const name = reply === hello ? "text" : "a tool call";
    test.each([
      {},
      { return_token_ids: true },
      { return_token_ids: false, temperature: 0 },
      { stream: true },
      { stream: true, stream_options: { include_usage: true } },
      { stream: true, stream_options: { include_usage: false } },
      { stream: true, return_token_ids: true },
    ])(`${name}: %j`, async (body) => {
      const { post, spans } = start((request) => replyAs(request, reply));
      const expected = await direct(body);
      const response = await post(body);
      expect(await response.text()).toBe(expected);
      expect(response.headers.get("content-type")).toStartWith(
        "stream" in body ? "text/event-stream" : "application/json",
      );
      const { triplets } = adaptProxySpans(await spans());
      expect(triplets.map(({ prompt, response: answer }) => [prompt.token_ids, answer.token_ids])).toEqual([
        [reply.prompt_token_ids, reply.pieces.flatMap(({ token_ids }) => token_ids)],
      ]);
    });
  }

  test("number spelling and unknown members survive in both directions", async () => {
    const { post, vllm } = start(() => ({
      parts: ['{"id":"x","model":"models/version_0","big":12345678901234567890, "f": 1.0,"choices":[]}'],
    }));
    const response = await post({}, { headers: {} });
    expect(await response.text()).toBe(
      '{"id":"x","model":"agent-model","big":12345678901234567890, "f": 1.0,"choices":[]}',
    );
    await fetch(`${fixture.baseUrl}/chat/completions`, {
      method: "POST",
      body: '{"seed": 12345678901234567890, "model": "agent-model", "temperature": 1.0}',
    });
    expect(vllm.requests[1]?.text).toBe(
      '{"seed": 12345678901234567890, "temperature": 1.0,"model":"models/version_0","return_token_ids":true}',
    );
  });

  test.each([400, 404, 422, 429, 500, 503])("an error keeps its status and body: %d", async (status) => {
    const answer = errorReply(status, "This model's maximum context length is 1024 tokens.", {
      "retry-after": "7",
    });
    const { post, spans, vllm } = start(() => answer);
    const response = await post({ stream: true });
    expect(response.status).toBe(status);
    expect(response.headers.get("retry-after")).toBe("7");
    expect([await response.text()]).toEqual(answer.parts as string[]);
    expect(vllm.requests).toHaveLength(1);
    const [call, ...others] = await spans("litellm_request");
    expect(others).toEqual([]);
    expect(call?.status).toMatchObject({ status_code: "ERROR" });
    expect(call?.status.description).toContain("maximum context length");
    expect(call?.attributes).toMatchObject({ "error.code": String(status) });
    expect(await spans("raw_gen_ai_request")).toEqual([]);
  });

  // O07
  test("usage that came as null beside the chunks is not shown to who did not ask", async () => {
    const { post } = start((request) => ({
      headers: { "content-type": "text/event-stream" },
      parts: streamEvents(request, hello).map((event) =>
        event.replace('"choices":[{', '"usage":null,"choices":[{'),
      ),
    }));
    expect(await (await post({ stream: true })).text()).not.toContain("usage");
    expect(await (await post({ stream: true, stream_options: { include_usage: true } })).text()).toContain(
      '"usage":null',
    );
  });

  test("the server's fingerprint stands where it would without the usage, from the first stream on", async () => {
    const { post } = start((request) => replyAs(request, hello));
    const expected = await direct({ stream: true });
    expect(expected).toContain("system_fingerprint");
    for (let call = 0; call < 3; call += 1) {
      expect(await (await post({ stream: true })).text()).toBe(expected);
    }
  });

  test("a server that sends no usage and goes on after an end gets no event held back for ever", async () => {
    const end = (index: number) =>
      `data: {"id":"a","choices":[{"index":${index},"delta":{},"finish_reason":"stop"}]}\n\n`;
    const sent = Array.from({ length: 300 }, (_, index) => end(index));
    const { post } = start(() => ({
      headers: { "content-type": "text/event-stream" },
      parts: [...sent, "hang"],
    }));
    const controller = new AbortController();
    const response = await post({ stream: true }, { signal: controller.signal });
    let text = "";
    for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>) {
      text += new TextDecoder().decode(bytes);
      if (text.length === sent.join("").length) break;
    }
    expect(text).toBe(sent.join(""));
    controller.abort();
  });

  test("a stream that ends without usage shows all its events", async () => {
    const { post } = start((request) => ({
      headers: { "content-type": "text/event-stream" },
      parts: streamEvents(request, hello).slice(0, -1),
    }));
    const text = await (await post({ stream: true })).text();
    expect(text).toContain('"finish_reason":"stop"');
  });

  test("comments, event names and several data lines pass", async () => {
    const chunk =
      '{"id":"a","model":"models/version_0",\n"choices":[{"index":0,"delta":{"content":"x"},"token_ids":[1]}]}';
    const { post } = start(() => ({
      headers: { "content-type": "text/event-stream" },
      parts: [
        `: ping\n\nevent: token\nid: 7\ndata: ${chunk.replace("\n", "\ndata: ")}\n\ndata: not json\n\n`,
      ],
    }));
    expect(await (await post({ stream: true })).text()).toBe(
      ': ping\n\nevent: token\nid: 7\ndata: {"id":"a","model":"agent-model",\n' +
        'data: "choices":[{"index":0,"delta":{"content":"x"},"token_ids":null}]}\n\ndata: not json\n\n',
    );
  });
});

describe("what is recorded", () => {
  test("three spans of one call, in one write, that the original's readers understand", async () => {
    const { post, spans, sink } = start((request) => replyAs(request, toolCall));
    await post({
      temperature: 0,
      max_tokens: 64,
      messages: [{ role: "user", content: "Don't" }],
      tools: [{ type: "function", function: { name: "add", parameters: { type: "object" } } }],
    });
    const [root, litellm, raw] = await spans();
    expect(sink.writes).toEqual([3]);
    expect([root?.name, litellm?.name, raw?.name]).toEqual([
      "Received Proxy Server Request",
      "litellm_request",
      "raw_gen_ai_request",
    ]);
    expect(new Set(sink.spans.map((span) => span.trace_id)).size).toBe(1);
    expect([root?.parent_id, litellm?.parent_id, raw?.parent_id]).toEqual([
      null,
      root?.span_id,
      root?.span_id,
    ]);
    expect(sink.spans.map((span) => [span.rollout_id, span.attempt_id, span.sequence_id])).toEqual(
      Array.from({ length: 3 }, () => ["ro-1", "at-1", 1]),
    );
    expect(litellm?.attributes).toMatchObject({
      "gen_ai.request.temperature": 0,
      "gen_ai.request.top_p": 1,
      "gen_ai.request.max_tokens": 64,
      "gen_ai.response.id": "chatcmpl-1",
      "gen_ai.response.model": "hosted_vllm/models/version_0",
      "gen_ai.usage.completion_tokens": 6,
      "gen_ai.prompt.0.content": "Don't",
      "gen_ai.completion.0.finish_reason": "tool_calls",
      "gen_ai.completion.0.function_call.name": "add",
      "gen_ai.completion.0.tool_calls.0.id": "call-1",
      "llm.request.functions.0.parameters": '{"type":"object"}',
      "metadata.requester_custom_headers":
        "{'x-rollout-id': 'ro-1', 'x-attempt-id': 'at-1', 'x-sequence-id': '1'}",
      "agl.call.checkpoint": "version_0",
      "agl.call.token_exact": true,
    });
    expect(raw?.attributes).toMatchObject({
      "llm.hosted_vllm.prompt_token_ids": "[1, 2]",
      "llm.hosted_vllm.response_token_ids": "[[20, 21, 22, 23, 24, 2]]",
      "llm.hosted_vllm.messages": `[{'role': 'user', 'content': "Don't"}]`,
      "llm.hosted_vllm.extra_body": "{'return_token_ids': True}",
      "llm.hosted_vllm.model": "models/version_0",
      "llm.hosted_vllm.temperature": 0,
      "llm.hosted_vllm.id": "chatcmpl-1",
    });
    expect(parsePythonLiteral(String(raw?.attributes["llm.hosted_vllm.choices"]))).toMatchObject([
      { finish_reason: "tool_calls", token_ids: [20, 21, 22, 23, 24, 2] },
    ]);
  });

  // O01
  test("streamed and plain calls leave the same message, ids, usage and finish reason", async () => {
    for (const reply of [hello, toolCall]) {
      const { post, spans } = start((request) => replyAs(request, reply));
      await (await post({})).text();
      await (await post({ stream: true })).text();
      const raws = await spans("raw_gen_ai_request");
      const [plain, streamed] = raws.map(({ attributes }) => ({
        prompt: attributes["llm.hosted_vllm.prompt_token_ids"],
        response: attributes["llm.hosted_vllm.response_token_ids"],
        usage: attributes["llm.hosted_vllm.usage"],
        choices: parsePythonLiteral(String(attributes["llm.hosted_vllm.choices"])),
        exact: attributes["agl.call.token_exact"],
      }));
      expect(streamed).toEqual(plain);
      expect(plain?.exact).toBe(true);
      await fixture.stop();
    }
  });

  // O02
  test.each([
    [
      "fewer ids than usage counts",
      { usage: { prompt_tokens: 3, completion_tokens: 47 } },
      "response_count_mismatch",
    ],
    ["another prompt count", { usage: { prompt_tokens: 4, completion_tokens: 6 } }, "prompt_count_mismatch"],
    ["no prompt ids", { prompt_token_ids: [] }, "no_prompt_token_ids"],
    ["no response ids", { pieces: [{ text: "x", token_ids: [] }] }, "no_response_token_ids"],
    ["ids that are no ids", { prompt_token_ids: [1, -2, 3] }, "invalid_token_ids"],
  ])("inexact, never trained: %s", async (_, changes, reason) => {
    for (const stream of [false, true]) {
      const { post, spans, proxy } = start((request) => replyAs(request, { ...hello, ...changes }));
      await (await post({ stream })).text();
      const [raw] = await spans("raw_gen_ai_request");
      expect(raw?.attributes).toMatchObject({
        "agl.call.token_exact": false,
        "agl.call.inexact_reason": reason,
      });
      expect(proxy.statistics().inexact).toEqual({ [reason]: 1 });
      expect(adaptProxySpans(await spans()).triplets).toMatchObject([
        { prompt: { token_ids: [] }, response: { token_ids: [] }, metadata: { exact: false, reason } },
      ]);
      await fixture.stop();
    }
  });

  test("a stream that ends without a finish reason is not exact", async () => {
    const { post, spans } = start((request) => ({
      headers: { "content-type": "text/event-stream" },
      parts: streamEvents(request, hello).slice(0, 2),
    }));
    await (await post({ stream: true })).text();
    const [raw] = await spans("raw_gen_ai_request");
    expect(raw?.attributes["agl.call.inexact_reason"]).toBe("unfinished_answer");
  });

  test("an error inside a stream reaches the agent and makes the call a failed one", async () => {
    const { post, spans } = start((request) => ({
      headers: { "content-type": "text/event-stream" },
      parts: [
        ...streamEvents(request, hello).slice(0, 1),
        'data: {"error":{"message":"out of memory","code":500}}\n\n',
      ],
    }));
    expect(await (await post({ stream: true })).text()).toContain("out of memory");
    const names = (await spans()).map(({ name, status }) => [name, status.status_code, status.description]);
    expect(names).toEqual([
      ["Received Proxy Server Request", "ERROR", "out of memory"],
      ["litellm_request", "ERROR", "out of memory"],
    ]);
  });

  // O05
  test.each([
    ["index on each delta", (index: number) => ({ index }), 0],
    ["index null throughout", () => ({ index: null }), 0],
    ["no index", () => ({}), 0],
  ])("one tool call in seven deltas: %s", async (_, place, at) => {
    const text = '{"expression": "12 * 7"}';
    const parts = Array.from({ length: 6 }, (__, index) => text.slice(index * 4, index * 4 + 4));
    const deltas = [
      { ...place(at), id: "call-9", type: "function", function: { name: "calculate", arguments: "" } },
      ...parts.map((part) => ({ ...place(at), function: { arguments: part } })),
    ];
    const reply = {
      ...toolCall,
      pieces: deltas.map((call) => ({ delta: { tool_calls: [call] }, token_ids: [5] })),
    };
    const { post, spans } = start((request) => replyAs(request, reply));
    expect(await (await post({ stream: true })).text()).toBe(await direct({ stream: true }));
    const [litellm] = await spans("litellm_request");
    expect(litellm?.attributes).toMatchObject({
      "gen_ai.completion.0.tool_calls.0.id": "call-9",
      "gen_ai.completion.0.tool_calls.0.arguments": text,
    });
    expect(Object.keys(litellm?.attributes ?? {})).not.toContain("gen_ai.completion.0.tool_calls.1.id");
    expect(litellm?.attributes).not.toHaveProperty("agl.call.tool_arguments_invalid");
  });

  // O06
  test("interleaved tool calls, the second never closed, are kept as they came and marked", async () => {
    const call = (index: number, rest: object) => ({
      delta: { tool_calls: [{ index, ...rest }] },
      token_ids: [5],
    });
    const pieces = [
      call(0, { id: "a", function: { name: "one", arguments: '{"x"' } }),
      call(1, { id: "b", function: { name: "two", arguments: '{"y": ' } }),
      call(0, { id: null, function: { arguments: ": 1}" } }),
      call(1, { function: { arguments: "2" } }),
    ];
    const { post, spans } = start((request) => replyAs(request, { ...toolCall, pieces }));
    await (await post({ stream: true })).text();
    const [litellm] = await spans("litellm_request");
    expect(litellm?.attributes).toMatchObject({
      "gen_ai.completion.0.tool_calls.0.arguments": '{"x": 1}',
      "gen_ai.completion.0.tool_calls.1.arguments": '{"y": 2',
      "agl.call.tool_arguments_invalid": true,
      "agl.call.token_exact": true,
    });
  });

  // O12
  test("500, 500, 200 to a client that retries: three calls, two failed, one row", async () => {
    const { spans, baseUrl } = start((request, index) =>
      index < 2 ? errorReply(500, "again", { "retry-after-ms": "1" }) : replyAs(request, hello),
    );
    const client = new OpenAI({ baseURL: baseUrl, apiKey: "any", maxRetries: 2 });
    const answer = await client.chat.completions.create({ model: "agent-model", messages: [] });
    expect(answer.choices[0]?.message.content).toBe("Héllo 😀");
    const calls = await spans("litellm_request");
    expect(calls.map(({ status }) => status.status_code)).toEqual(["ERROR", "ERROR", "OK"]);
    const { triplets, dropped } = adaptProxySpans(await spans());
    expect(triplets).toHaveLength(1);
    expect(dropped.map(({ reason }) => reason)).toEqual(["failed", "failed"]);
  });

  // O04
  test("a prompt of 32 000 ids in one event, in pieces of 1 000 bytes", async () => {
    const prompt_token_ids = Array.from({ length: 32_000 }, (_, index) => index + 100_000);
    const reply = { ...hello, prompt_token_ids };
    const pieces = (text: string) => text.match(/[^]{1,1000}/g) ?? [];
    const { post, spans } = start((request) => {
      const answer = replyAs(request, reply);
      return { ...answer, parts: answer.parts.flatMap((part) => pieces(String(part))) };
    });
    expect(await (await post({ stream: true })).text()).toBe(await direct({ stream: true }));
    const { triplets } = adaptProxySpans(await spans());
    expect(triplets[0]?.prompt.token_ids).toEqual(prompt_token_ids);
  });

  test("several answers to one prompt are all recorded; the count covers them", async () => {
    const choice = (index: number, token_ids: number[]) => ({
      index,
      message: { role: "assistant", content: `${index}` },
      finish_reason: "stop",
      token_ids,
    });
    const body = {
      id: "n",
      model: "models/version_0",
      choices: [choice(0, [7]), choice(1, [8, 9])],
      usage: { prompt_tokens: 2, completion_tokens: 3 },
      prompt_token_ids: [1, 2],
    };
    const { post, spans } = start(() => ({ parts: [JSON.stringify(body)] }));
    expect(await (await post({ n: 2 })).text()).not.toMatch(/token_ids":\s*\[/);
    const [raw] = await spans("raw_gen_ai_request");
    expect(raw?.attributes).toMatchObject({
      "llm.hosted_vllm.response_token_ids": "[[7], [8, 9]]",
      "agl.call.token_exact": true,
    });
    expect(adaptProxySpans(await spans()).triplets[0]?.response.token_ids).toEqual([7]);
  });

  test("the checkpoint on the span is the one that answered, while the list changes under running calls", async () => {
    let release = () => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    const { post, spans, proxy, vllm } = start(async (request: FakeRequest, index) => {
      if (index === 0) await held;
      return replyAs(request, { ...hello, id: `chatcmpl-${index}` });
    });
    const first = post({});
    while (vllm.requests.length === 0) await Bun.sleep(1);
    const next = { modelName: "agent-model", model: "models/version_1", baseUrl: vllm.baseUrl };
    proxy.setUpstreams([{ ...next, checkpoint: "version_1", provider: "hosted_vllm" }]);
    await (await post({})).text();
    proxy.setUpstreams([]);
    const refused = await post({});
    expect(refused.status).toBe(503);
    expect(refused.headers.get("retry-after")).toBe("5");
    release();
    await (await first).text();
    const raws = await spans("raw_gen_ai_request");
    const seen = raws.map(({ sequence_id, attributes }) => [
      sequence_id,
      attributes["agl.call.checkpoint"],
      attributes["llm.hosted_vllm.model"],
    ]);
    expect(seen.sort()).toEqual([
      [1, "version_0", "models/version_0"],
      [2, "version_1", "models/version_1"],
    ]);
    expect(proxy.statistics().refused.no_upstream).toBe(1);
  });
});
