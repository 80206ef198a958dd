import { afterEach, describe, expect, test } from "bun:test";
import { adaptProxySpans } from "../../../src/adapter/proxy-adapter.ts";
import type { FakeReply, FakeScript } from "../../helpers/fake-vllm.ts";
import { errorReply, replyAs, streamEvents } from "../../helpers/fake-vllm.ts";
import type { ProxyFixture } from "../../helpers/proxy-fixture.ts";
import { startProxyFixture, upstreamOf } from "../../helpers/proxy-fixture.ts";

const call = (index: number, id: string | null, name: string | null, text: string) => ({
  tool_calls: [
    { index, ...(id === null ? {} : { id, type: "function" }), function: { name, arguments: text } },
  ],
});
const withTools: FakeReply = {
  id: "chatcmpl-9",
  prompt_token_ids: [1, 2, 3],
  finish_reason: "tool_calls",
  message: {
    role: "assistant",
    reasoning: "Hm",
    content: "Let me",
    tool_calls: [{ id: "t1", type: "function", function: { name: "add", arguments: '{"a": 1.0}' } }],
  },
  pieces: [
    { delta: { reasoning: "Hm" }, token_ids: [10] },
    { delta: { content: "Let" }, token_ids: [11] },
    { delta: { content: " me" }, token_ids: [12] },
    { delta: {}, token_ids: [13] },
    { delta: call(0, "t1", "add", ""), token_ids: [14] },
    { delta: call(0, null, null, '{"a":'), token_ids: [15] },
    { delta: { content: "and" }, token_ids: [16] },
    { delta: call(0, null, null, " 1.0}"), token_ids: [17] },
    { delta: {}, token_ids: [2] },
  ],
};

let fixture: ProxyFixture;
const start = (script: FakeScript) => (fixture = startProxyFixture(script));
afterEach(() => fixture.stop());

function ask(body: object, url = fixture.baseUrl): Promise<Response> {
  const base = { model: "agent-model", max_tokens: 32, messages: [{ role: "user", content: "Hi" }] };
  return fetch(`${url}/messages`, { method: "POST", body: JSON.stringify({ ...base, ...body }) });
}

/** Signatures are made up anew each time. */
const shown = (text: string) => text.replaceAll(/"signature":"[0-9a-f]{32}"/g, '"signature":"S"');

describe("a message is asked as a chat completion, which has ids", () => {
  test("plain: shown as a message, recorded with its ids", async () => {
    const { vllm, spans } = start((request) => replyAs(request, withTools));
    const response = await ask({ system: "Be brief" });
    expect(shown(await response.text())).toBe(
      '{"id":"chatcmpl-9","type":"message","role":"assistant","content":[' +
        '{"type":"thinking","thinking":"Hm","signature":"S"},{"type":"text","text":"Let me"},' +
        '{"type":"tool_use","id":"t1","name":"add","input":{"a":1.0}}],"model":"agent-model",' +
        '"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":9}}',
    );
    expect(vllm.requests[0]).toMatchObject({
      path: "/v1/chat/completions",
      body: { model: "models/version_0", return_token_ids: true },
    });
    const { triplets } = adaptProxySpans(await spans());
    expect(triplets).toMatchObject([
      {
        prompt: { token_ids: [1, 2, 3] },
        response: { token_ids: [10, 11, 12, 13, 14, 15, 16, 17, 2] },
        metadata: { exact: true },
      },
    ]);
    const [normalised] = await spans("litellm_request");
    expect(normalised?.attributes).toMatchObject({
      "gen_ai.prompt.0.role": "system",
      "gen_ai.prompt.0.content": "Be brief",
      "gen_ai.prompt.1.content": "Hi",
      "gen_ai.completion.0.content": "Let me",
      "gen_ai.completion.0.tool_calls.0.name": "add",
    });
  });

  test("a call whose arguments are no JSON is answered and recorded, and is no fault of the server", async () => {
    const cut = { id: "t1", type: "function", function: { name: "add", arguments: '{"a": 1' } };
    const message = { ...withTools.message, tool_calls: [cut] };
    const { spans, proxy } = start((request) => replyAs(request, { ...withTools, message }));
    const answer = (await (await ask({})).json()) as { content: object[] };
    expect(answer.content.at(-1)).toEqual({ type: "tool_use", id: "t1", name: "add", input: '{"a": 1' });
    const { triplets } = adaptProxySpans(await spans());
    expect(triplets).toMatchObject([{ prompt: { token_ids: [1, 2, 3] }, metadata: { exact: true } }]);
    expect(proxy.statistics()).toMatchObject({ failed: 0, servers: [{ failures: 0 }] });
  });

  test("streamed: the events of a message, text between the parts of a call after it", async () => {
    const { spans } = start((request) => replyAs(request, withTools));
    const response = await ask({ stream: true });
    const events = shown(await response.text()).split("\n\n");
    const block = (index: number, type: string, delta: object) =>
      `event: content_block_delta\ndata: ${JSON.stringify({ type: "content_block_delta", delta: { type, ...delta }, index })}`;
    const begin = (index: number, content_block: object) =>
      `event: content_block_start\ndata: ${JSON.stringify({ type: "content_block_start", content_block, index })}`;
    const end = (index: number) =>
      `event: content_block_stop\ndata: ${JSON.stringify({ type: "content_block_stop", index })}`;
    expect(events).toEqual([
      'event: message_start\ndata: {"type":"message_start","message":{"id":"chatcmpl-9","type":"message",' +
        '"role":"assistant","content":[],"model":"agent-model","stop_reason":null,"stop_sequence":null,' +
        '"usage":{"input_tokens":0,"output_tokens":0}}}',
      begin(0, { type: "thinking", thinking: "" }),
      block(0, "thinking_delta", { thinking: "Hm" }),
      block(0, "signature_delta", { signature: "S" }),
      end(0),
      begin(1, { type: "text", text: "" }),
      block(1, "text_delta", { text: "Let" }),
      block(1, "text_delta", { text: " me" }),
      end(1),
      begin(2, { type: "tool_use", id: "t1", name: "add", input: {} }),
      block(2, "input_json_delta", { partial_json: '{"a":' }),
      block(2, "input_json_delta", { partial_json: " 1.0}" }),
      end(2),
      begin(3, { type: "text", text: "" }),
      block(3, "text_delta", { text: "and" }),
      end(3),
      'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},' +
        '"usage":{"input_tokens":3,"output_tokens":9}}',
      'event: message_stop\ndata: {"type":"message_stop"}',
      "",
    ]);
    const { triplets } = adaptProxySpans(await spans());
    expect(triplets[0]?.response.token_ids).toEqual([10, 11, 12, 13, 14, 15, 16, 17, 2]);
  });

  test("an error has the form of the API", async () => {
    start(() => errorReply(400, "too long"));
    const response = await ask({});
    expect(response.status).toBe(400);
    expect(await response.json()).toEqual({
      type: "error",
      error: { type: "BadRequestError", message: "too long" },
    });
  });

  test("an error inside the stream ends it, and the call is no row", async () => {
    const { spans } = start((request) => ({
      headers: { "content-type": "text/event-stream" },
      parts: [
        ...streamEvents(request, withTools).slice(0, 3),
        'data: {"error":{"message":"out of memory","type":"InternalServerError","code":500}}\n\ndata: [DONE]\n\n',
      ],
    }));
    const text = await (await ask({ stream: true })).text();
    expect(text).toEndWith(
      'data: {"type":"error","error":{"type":"internal_error","message":"out of memory"}}\n\n',
    );
    const [failed] = await spans("litellm_request");
    expect(failed?.status).toMatchObject({ status_code: "ERROR", description: "out of memory" });
  });

  test("a server of another kind gets none of vLLM's own members", async () => {
    const { proxy, vllm } = start((request) => replyAs(request, withTools));
    proxy.setUpstreams([upstreamOf(vllm, { provider: "openai" })]);
    await (await ask({ stream: true, top_k: 5 })).text();
    expect(vllm.requests[0]?.body).toEqual({
      messages: [{ role: "user", content: "Hi" }],
      stream: true,
      max_completion_tokens: 32,
      stream_options: { include_usage: true },
      model: "models/version_0",
    });
  });
});

describe("what cannot be translated goes on as it is, and its record says that it has no ids", () => {
  const untranslatable = { thinking: { type: "disabled" } };
  const message = {
    id: "msg-1",
    type: "message",
    role: "assistant",
    content: [
      { type: "text", text: "Hé" },
      { type: "tool_use", id: "t", name: "f", input: { a: 1 } },
    ],
    model: "models/version_0",
    stop_reason: "tool_use",
    usage: { input_tokens: 3, output_tokens: 2 },
  };
  const events = [
    { type: "message_start", message: { ...message, content: [], stop_reason: null } },
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "H" } },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "é" } },
    { type: "content_block_stop", index: 0 },
    {
      type: "content_block_start",
      index: 1,
      content_block: { type: "tool_use", id: "t", name: "f", input: {} },
    },
    { type: "content_block_delta", index: 1, delta: { type: "input_json_delta", partial_json: '{"a"' } },
    { type: "content_block_delta", index: 1, delta: { type: "input_json_delta", partial_json: ":1}" } },
    {
      type: "message_delta",
      delta: { stop_reason: "tool_use" },
      usage: { input_tokens: 3, output_tokens: 2 },
    },
    { type: "message_stop" },
  ].map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);

  test.each([false, true])("streamed: %p", async (stream) => {
    const { vllm, spans, proxy } = start(({ body }) =>
      body.stream === true
        ? { headers: { "content-type": "text/event-stream" }, parts: events }
        : { parts: [JSON.stringify(message)] },
    );
    const text = await (await ask({ ...untranslatable, stream })).text();
    const sent = stream ? events.join("") : JSON.stringify(message);
    expect(text).toBe(sent.replace("models/version_0", "agent-model"));
    expect(vllm.requests[0]?.path).toBe("/v1/messages");
    const [call] = await spans("litellm_request");
    expect(call?.attributes).toMatchObject({
      "gen_ai.completion.0.content": "Hé",
      "gen_ai.completion.0.tool_calls.0.arguments": '{"a":1}',
      "gen_ai.completion.0.finish_reason": "tool_calls",
      "gen_ai.usage.prompt_tokens": 3,
      "gen_ai.usage.completion_tokens": 2,
      "agl.call.inexact_reason": "no_prompt_token_ids",
    });
    expect(proxy.statistics().inexact).toEqual({ no_prompt_token_ids: 1 });
  });

  test("calls that name no attempt are not translated", async () => {
    const { vllm, server } = start(() => ({ parts: [JSON.stringify(message)] }));
    await (await ask({}, `${server.url}/v1`)).text();
    expect(vllm.requests[0]).toMatchObject({ path: "/v1/messages" });
    expect(vllm.requests[0]?.body.return_token_ids).toBeUndefined();
  });
});
