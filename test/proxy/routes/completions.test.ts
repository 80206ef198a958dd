import { afterEach, expect, test } from "bun:test";
import { adaptProxySpans } from "../../../src/adapter/proxy-adapter.ts";
import type { FakeReply, FakeScript } from "../../helpers/fake-vllm.ts";
import { replyAs } from "../../helpers/fake-vllm.ts";
import type { ProxyFixture } from "../../helpers/proxy-fixture.ts";
import { startProxyFixture } from "../../helpers/proxy-fixture.ts";

const story: FakeReply = {
  id: "cmpl-7",
  prompt_token_ids: [1, 2, 3],
  pieces: [
    { text: "Once", token_ids: [10] },
    { text: " upon 😀", token_ids: [11, 12] },
    { text: "", token_ids: [2] },
  ],
};

let fixture: ProxyFixture;
const start = (script: FakeScript) => (fixture = startProxyFixture(script));
afterEach(() => fixture.stop());

function ask(url: string, body: object): Promise<Response> {
  return fetch(`${url}/completions`, {
    method: "POST",
    body: JSON.stringify({ model: "agent-model", prompt: "Tell", ...body }),
  });
}

test.each([
  {},
  { logprobs: 1 },
  { return_token_ids: true },
  { stream: true },
  { stream: true, logprobs: 1 },
  { stream: true, stream_options: { include_usage: true } },
  { stream: true, return_token_ids: true },
])("a text completion is recorded with its ids and answered as without the proxy: %j", async (body) => {
  const { vllm, baseUrl, spans } = start((request) => replyAs(request, story));
  const expected = await (await ask(vllm.baseUrl, body)).text();
  expect(await (await ask(baseUrl, body)).text()).toBe(expected);
  const { triplets } = adaptProxySpans(await spans());
  expect(triplets).toMatchObject([
    {
      prompt: { token_ids: [1, 2, 3] },
      response: { token_ids: [10, 11, 12, 2] },
      metadata: { exact: true, response_id: "cmpl-7" },
    },
  ]);
  const [call] = await spans("litellm_request");
  expect(call?.attributes).toMatchObject({
    "gen_ai.prompt.0.role": "user",
    "gen_ai.prompt.0.content": "Tell",
    "gen_ai.completion.0.content": "Once upon 😀",
    "gen_ai.completion.0.finish_reason": "stop",
  });
});

test("a stream is put together to what the plain answer says, log-probabilities included", async () => {
  const { baseUrl, spans } = start((request) => replyAs(request, story));
  await (await ask(baseUrl, { logprobs: 1 })).text();
  await (await ask(baseUrl, { logprobs: 1, stream: true })).text();
  const [plain, streamed] = await spans("raw_gen_ai_request");
  for (const member of ["choices", "usage", "id", "object", "prompt_token_ids", "response_token_ids"]) {
    const key = `llm.hosted_vllm.${member}`;
    expect([key, streamed?.attributes[key]]).toEqual([key, plain?.attributes[key]]);
  }
});

test("an echo is not asked for ids, because that would take the prompt's text out of it", async () => {
  const { vllm, baseUrl, spans } = start((request) => replyAs(request, story));
  const body = { echo: true, stream: true };
  const expected = await (await ask(vllm.baseUrl, body)).text();
  expect(await (await ask(baseUrl, body)).text()).toBe(expected);
  expect(vllm.requests[1]?.body.return_token_ids).toBeUndefined();
  const { triplets } = adaptProxySpans(await spans());
  expect(triplets[0]?.metadata).toMatchObject({ exact: false, reason: "no_prompt_token_ids" });
});

test("several prompts in one call are recorded, and not taken for one", async () => {
  const choice = (index: number, prompt_token_ids: number[]) => ({
    index,
    text: "x",
    finish_reason: "stop",
    prompt_token_ids,
    token_ids: [7],
  });
  const { baseUrl, spans, proxy } = start(() => ({
    parts: [
      JSON.stringify({
        id: "two",
        object: "text_completion",
        choices: [choice(0, [1, 2]), choice(1, [3])],
        usage: { prompt_tokens: 3, completion_tokens: 2 },
      }),
    ],
  }));
  await (await ask(baseUrl, { prompt: ["a", "b"] })).text();
  const { triplets } = adaptProxySpans(await spans());
  expect(triplets[0]?.metadata).toMatchObject({ exact: false, reason: "several_prompts" });
  expect(proxy.statistics().inexact).toEqual({ several_prompts: 1 });
});
