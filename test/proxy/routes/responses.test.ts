import { afterEach, expect, test } from "bun:test";
import { adaptProxySpans } from "../../../src/adapter/proxy-adapter.ts";
import type { FakeAnswer, FakeRequest } from "../../helpers/fake-vllm.ts";
import type { ProxyFixture } from "../../helpers/proxy-fixture.ts";
import { startProxyFixture } from "../../helpers/proxy-fixture.ts";

const raw = (tokens: number[]) => ({ message: "<text>", tokens, type: "raw_message_tokens" });
const call = { type: "function_call", id: "fc_1", call_id: "c1", name: "add", arguments: '{"a": 1}' };
const text = { type: "message", role: "assistant", content: [{ type: "output_text", text: "Hé" }] };

/** A response as vLLM writes it: its messages only where they were asked for. */
function response(request: FakeRequest, changes: object = {}): object {
  const asked = request.body.enable_response_messages === true;
  return {
    id: "resp_1",
    created_at: 1767000000,
    model: request.body.model,
    object: "response",
    output: [text, call],
    status: "completed",
    usage: { input_tokens: 3, output_tokens: 4, total_tokens: 7 },
    input_messages: asked ? [raw([1, 2, 3])] : null,
    output_messages: asked ? [raw([10, 11, 12, 2])] : null,
    ...changes,
  };
}

function replyTo(request: FakeRequest, changes: object = {}): FakeAnswer {
  if (request.body.stream !== true) return { parts: [JSON.stringify(response(request, changes))] };
  const started = {
    status: "in_progress",
    output: [],
    usage: null,
    input_messages: null,
    output_messages: null,
  };
  const events = [
    { response: response(request, started), sequence_number: 0, type: "response.created" },
    { delta: "Hé", item_id: "m", output_index: 0, sequence_number: 1, type: "response.output_text.delta" },
    { response: response(request, changes), sequence_number: 2, type: "response.completed" },
  ];
  return {
    headers: { "content-type": "text/event-stream" },
    parts: events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`),
  };
}

let fixture: ProxyFixture;
afterEach(() => fixture.stop());

function ask(url: string, body: object): Promise<Response> {
  return fetch(`${url}/responses`, {
    method: "POST",
    body: JSON.stringify({ model: "agent-model", input: "Hi", ...body }),
  });
}

test.each([
  {},
  { stream: true },
  { enable_response_messages: true },
  { stream: true, enable_response_messages: true },
])("a response is recorded with its ids and shown as without the proxy: %j", async (body) => {
  fixture = startProxyFixture((request) => replyTo(request));
  const { vllm, baseUrl, spans } = fixture;
  const expected = await (await ask(vllm.baseUrl, body)).text();
  expect(await (await ask(baseUrl, body)).text()).toBe(expected);
  const { triplets } = adaptProxySpans(await spans());
  expect(triplets).toMatchObject([
    {
      prompt: { token_ids: [1, 2, 3] },
      response: { token_ids: [10, 11, 12, 2] },
      metadata: { exact: true, response_id: "resp_1" },
    },
  ]);
});

test("the normalised span tells the conversation, tools and calls", async () => {
  fixture = startProxyFixture((request) => replyTo(request));
  const { baseUrl, spans } = fixture;
  const input = [
    { role: "user", content: [{ type: "input_text", text: "What is 1?" }] },
    { ...call, arguments: "{}" },
    { type: "function_call_output", call_id: "c1", output: "1" },
  ];
  const tools = [{ type: "function", name: "add", parameters: { type: "object" } }];
  await (await ask(baseUrl, { input, instructions: "Be brief", tools, max_output_tokens: 9 })).text();
  const [normalised] = await spans("litellm_request");
  expect(normalised?.attributes).toMatchObject({
    "gen_ai.prompt.0.role": "system",
    "gen_ai.prompt.0.content": "Be brief",
    "gen_ai.prompt.1.content": "What is 1?",
    "gen_ai.prompt.2.tool_calls.0.name": "add",
    "gen_ai.prompt.3.tool_call_id": "c1",
    "gen_ai.request.functions.0.name": "add",
    "gen_ai.request.max_tokens": 9,
    "gen_ai.completion.0.content": "Hé",
    "gen_ai.completion.0.tool_calls.0.arguments": '{"a": 1}',
    "gen_ai.completion.0.finish_reason": "tool_calls",
  });
});

test.each<[string, object, string]>([
  ["several turns of the model", { output_messages: [raw([1]), raw([2])] }, "no_response_token_ids"],
  ["a server that shows no messages", { input_messages: null }, "no_prompt_token_ids"],
  ["a count that differs", { usage: { input_tokens: 3, output_tokens: 5 } }, "response_count_mismatch"],
  ["one that is still being made", { status: "queued" }, "unfinished_answer"],
])("not trained on: %s", async (_, changes, reason) => {
  fixture = startProxyFixture((request) => replyTo(request, changes));
  const { baseUrl, spans, proxy } = fixture;
  await (await ask(baseUrl, { stream: true })).text();
  const { triplets } = adaptProxySpans(await spans());
  expect(triplets[0]?.metadata).toMatchObject({ exact: false, reason });
  expect(proxy.statistics().inexact).toEqual({ [reason]: 1 });
});

test("a background call is not asked for what vLLM refuses to it", async () => {
  fixture = startProxyFixture((request) => replyTo(request));
  const { baseUrl, vllm } = fixture;
  await (await ask(baseUrl, { background: true })).text();
  expect(vllm.requests[0]?.body.enable_response_messages).toBeUndefined();
});

test("a stream that fails is an error, and no row", async () => {
  fixture = startProxyFixture((request) => {
    const failed = { status: "failed", error: { message: "out of memory" } };
    const event = { response: response(request, failed), type: "response.failed" };
    return {
      headers: { "content-type": "text/event-stream" },
      parts: [`event: response.failed\ndata: ${JSON.stringify(event)}\n\n`],
    };
  });
  const { baseUrl, spans } = fixture;
  await (await ask(baseUrl, { stream: true })).text();
  const [call] = await spans("litellm_request");
  expect(call?.status).toMatchObject({ status_code: "ERROR", description: "out of memory" });
});
