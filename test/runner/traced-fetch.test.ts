import { afterEach, describe, expect, test } from "bun:test";
import OpenAI from "openai";
import { directFetch } from "../../src/client/loopback-fetch.ts";
import type { SpanCore } from "../../src/runner/attempt-spans.ts";
import { traceChatCalls } from "../../src/runner/traced-fetch.ts";
import { errorReply, type FakeReply, type FakeScript, replyAs, startFakeVllm } from "../helpers/fake-vllm.ts";

const stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

const messages = [{ role: "user" as const, content: "Hi" }];
const question = { model: "m", messages };
const hello: FakeReply = {
  id: "chatcmpl-7",
  prompt_token_ids: [5, 6, 7],
  pieces: [
    { text: "He", token_ids: [1] },
    { text: "llo", token_ids: [2, 3] },
  ],
};
const argumentsText = '{"expression": "1+1"}';
const toolCall: FakeReply = {
  prompt_token_ids: [5],
  pieces: [
    { delta: {}, token_ids: [1] },
    {
      delta: {
        tool_calls: [
          {
            index: 0,
            id: "call-1",
            type: "function",
            function: { name: "calculate", arguments: argumentsText },
          },
        ],
      },
      token_ids: [2, 3],
    },
  ],
  message: {
    role: "assistant",
    content: null,
    tool_calls: [
      { id: "call-1", type: "function", function: { name: "calculate", arguments: argumentsText } },
    ],
  },
  finish_reason: "tool_calls",
};

/** An OpenAI client whose calls are traced, and one whose calls are not, before the same scripted server. */
function start(script: FakeScript) {
  const vllm = startFakeVllm(script);
  stops.push(vllm.stop);
  const spans: SpanCore[] = [];
  const fetch = traceChatCalls({ fetch: directFetch, onCall: (span) => spans.push(span) });
  const options = { baseURL: vllm.baseUrl, apiKey: "none", maxRetries: 0 };
  const traced = new OpenAI({
    ...options,
    fetch: (url, init) => fetch(String(url), init as RequestInit),
  });
  return { vllm, spans, traced, plain: new OpenAI(options) };
}

const always =
  (reply: FakeReply): FakeScript =>
  (request) =>
    replyAs(request, reply);

async function all<Item>(stream: AsyncIterable<Item>): Promise<Item[]> {
  const items: Item[] = [];
  for await (const item of stream) items.push(item);
  return items;
}

/** `rejects` does not see through the client's own kind of promise. */
async function messageOfFailure(call: PromiseLike<unknown>): Promise<string> {
  try {
    await call;
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error("the call did not fail");
}

async function readStream(client: OpenAI): Promise<void> {
  await all(await client.chat.completions.create({ ...question, stream: true }));
}

describe("a chat completion becomes a span with the server's ids", () => {
  const expected = {
    name: "openai.chat.completion",
    attributes: {
      "gen_ai.system": "openai",
      "gen_ai.operation.name": "chat",
      "gen_ai.request.model": "m",
      "gen_ai.request.temperature": 0,
      "gen_ai.prompt.0.role": "user",
      "gen_ai.prompt.0.content": "Hi",
      "gen_ai.completion.0.role": "assistant",
      "gen_ai.completion.0.content": "Hello",
      "gen_ai.completion.0.finish_reason": "stop",
      "gen_ai.response.id": "chatcmpl-7",
      "gen_ai.response.model": "m",
      "gen_ai.response.finish_reasons": ["stop"],
      "gen_ai.usage.prompt_tokens": 3,
      "gen_ai.usage.completion_tokens": 3,
      "gen_ai.usage.total_tokens": 6,
      prompt_token_ids: [5, 6, 7],
      response_token_ids: [1, 2, 3],
      "agl.call.token_exact": true,
    },
    startTime: expect.any(Number),
    endTime: expect.any(Number),
  };
  const streamed = (value: boolean) => ({
    ...expected,
    attributes: {
      ...expected.attributes,
      "gen_ai.request.streaming": value,
      "agl.call.streamed": value,
    },
  });

  test("plain", async () => {
    const { traced, spans } = start(always(hello));
    await traced.chat.completions.create({ ...question, temperature: 0 });
    expect(spans).toEqual([streamed(false)]);
  });

  test("streamed, known when the agent sees the end", async () => {
    const { traced, spans } = start(always(hello));
    for await (const _ of await traced.chat.completions.create({
      ...question,
      temperature: 0,
      stream: true,
    }));
    expect(spans).toEqual([streamed(true)]);
  });

  test("streamed by a server that sends no [DONE]", async () => {
    const { traced, spans } = start((request) => {
      const answer = replyAs(request, hello);
      return { ...answer, parts: answer.parts.filter((part) => part !== "data: [DONE]\n\n") };
    });
    await all(await traced.chat.completions.create({ ...question, temperature: 0, stream: true }));
    expect(spans).toEqual([streamed(true)]);
  });

  test("with the client's stream helper", async () => {
    const { traced, spans } = start(always(hello));
    const text = await traced.chat.completions.stream({ ...question, temperature: 0 }).finalContent();
    expect(text).toBe("Hello");
    expect(spans).toEqual([streamed(true)]);
  });

  test.each([false, true])("with a tool call, streamed: %p", async (stream) => {
    const { traced, spans } = start(always(toolCall));
    const tools = [
      { type: "function" as const, function: { name: "calculate", parameters: { type: "object" } } },
    ];
    if (stream) await all(await traced.chat.completions.create({ ...question, tools, stream }));
    else await traced.chat.completions.create({ ...question, tools });
    expect(spans[0]?.attributes).toMatchObject({
      "gen_ai.request.functions.0.name": "calculate",
      "gen_ai.request.functions.0.parameters": '{"type":"object"}',
      "gen_ai.completion.0.tool_calls.0.id": "call-1",
      "gen_ai.completion.0.tool_calls.0.name": "calculate",
      "gen_ai.completion.0.tool_calls.0.arguments": argumentsText,
      "gen_ai.completion.0.finish_reason": "tool_calls",
      prompt_token_ids: [5],
      response_token_ids: [1, 2, 3],
      "agl.call.token_exact": true,
    });
    expect(spans[0]?.attributes).not.toContainKey("gen_ai.completion.0.function_call.name");
  });

  test("with log-probabilities when the agent asks for them", async () => {
    const content = [{ token: "Hello", logprob: -0.5, bytes: null, top_logprobs: [] }];
    const { traced, spans } = start((request) => {
      const answer = JSON.parse(replyAs(request, hello).parts[0] as string);
      answer.choices[0].logprobs = { content };
      return { parts: [JSON.stringify(answer)] };
    });
    await traced.chat.completions.create({ ...question, logprobs: true });
    expect(JSON.parse(String(spans[0]?.attributes["logprobs.content"]))).toEqual(content);
  });

  test("ids that disagree with the server's count are not exact", async () => {
    const { traced, spans } = start(always({ ...hello, usage: { prompt_tokens: 3, completion_tokens: 9 } }));
    await traced.chat.completions.create(question);
    expect(spans[0]?.attributes).toMatchObject({
      "agl.call.token_exact": false,
      "agl.call.inexact_reason": "response_count_mismatch",
    });
  });

  test("ids that are none never reach the span", async () => {
    const { traced, spans } = start(always({ ...hello, prompt_token_ids: [1.5, -1] }));
    await traced.chat.completions.create(question);
    expect(spans[0]?.attributes).not.toContainKey("prompt_token_ids");
    expect(spans[0]?.attributes).toMatchObject({ "agl.call.inexact_reason": "invalid_token_ids" });
  });
});

describe("the agent notices nothing", () => {
  test.each([hello, toolCall])("of a plain call (%#)", async (reply) => {
    const { traced, plain } = start(always(reply));
    const [seen, untouched] = [
      await traced.chat.completions.create(question),
      await plain.chat.completions.create(question),
    ];
    expect(JSON.stringify(seen)).toBe(JSON.stringify(untouched));
  });

  test.each([hello, toolCall])("of a stream (%#)", async (reply) => {
    const { traced, plain } = start(always(reply));
    for (const stream_options of [null, { include_usage: true }]) {
      const request = { ...question, stream: true as const, stream_options };
      const [seen, untouched] = [
        await all(await traced.chat.completions.create(request)),
        await all(await plain.chat.completions.create(request)),
      ];
      expect(JSON.stringify(seen)).toBe(JSON.stringify(untouched));
    }
  });

  test("an agent that asks for ids itself gets them", async () => {
    const { traced } = start(always(hello));
    const answer = await traced.chat.completions.create({ ...question, return_token_ids: true } as never);
    expect(answer).toMatchObject({ prompt_token_ids: [5, 6, 7], choices: [{ token_ids: [1, 2, 3] }] });
  });

  test("other requests pass as they are", async () => {
    const { traced, spans, vllm } = start((request) => ({
      parts: [JSON.stringify({ data: [], path: request.path })],
    }));
    await traced.models.list();
    await traced.post("/completions", { body: { model: "m", prompt: "Hi" } });
    expect(vllm.requests.map(({ method, path }) => `${method} ${path}`)).toEqual([
      "GET /v1/models",
      "POST /v1/completions",
    ]);
    expect(vllm.requests[1]?.body).toEqual({ model: "m", prompt: "Hi" });
    expect(spans).toEqual([]);
  });
});

describe("a call that fails is a span with an error", () => {
  test("refused by the server, whose answer the agent gets", async () => {
    const { traced, spans } = start(() => errorReply(404, "no such model"));
    expect(await messageOfFailure(traced.chat.completions.create(question))).toContain("no such model");
    expect(spans).toMatchObject([
      {
        error: "404: no such model",
        attributes: { "error.type": "http_404", "agl.call.token_exact": false },
      },
    ]);
  });

  test("the server cannot be reached", async () => {
    const { traced, spans, vllm } = start(always(hello));
    await vllm.stop();
    expect(await messageOfFailure(traced.chat.completions.create(question))).toContain("Connection error");
    expect(spans).toMatchObject([{ attributes: { "error.type": "upstream_unreachable" } }]);
  });

  test("the connection breaks in mid-stream", async () => {
    const { traced, spans } = start((request) => {
      const answer = replyAs(request, hello);
      return { ...answer, parts: answer.parts.slice(0, 2), breakOff: true };
    });
    expect(await messageOfFailure(readStream(traced))).not.toBe("");
    expect(spans).toMatchObject([
      { attributes: { "error.type": "upstream_unreachable", "gen_ai.completion.0.content": "He" } },
    ]);
  });

  test("the server reports an error inside the stream", async () => {
    const { traced, spans } = start(() => ({
      headers: { "content-type": "text/event-stream" },
      parts: ['data: {"error": {"message": "out of memory"}}\n\n', "data: [DONE]\n\n"],
    }));
    expect(await messageOfFailure(readStream(traced))).not.toBe("");
    expect(spans).toMatchObject([{ error: "out of memory" }]);
  });

  test("the agent leaves a stream before its end", async () => {
    const { traced, spans } = start((request) => {
      const answer = replyAs(request, hello);
      return { ...answer, parts: [...answer.parts.slice(0, 2), "hang"] };
    });
    for await (const _ of await traced.chat.completions.create({ ...question, stream: true })) break;
    while (spans.length === 0) await Bun.sleep(1);
    expect(spans).toMatchObject([
      {
        error: "the agent stopped before the end",
        attributes: { "agl.call.aborted_by_client": true, "agl.call.inexact_reason": "aborted_by_client" },
      },
    ]);
  });
});

describe("a server that refuses the question for ids", () => {
  const strict: FakeScript = (request) =>
    request.body.return_token_ids === undefined
      ? replyAs(request, hello)
      : errorReply(400, "Unknown parameter: 'return_token_ids'.");

  test("is asked without, from then on at once", async () => {
    const { traced, spans, vllm } = start(strict);
    for (let call = 0; call < 2; call++) {
      const answer = await traced.chat.completions.create(question);
      expect(answer.choices[0]?.message.content).toBe("Hello");
    }
    expect(vllm.requests.map(({ body }) => body.return_token_ids)).toEqual([true, undefined, undefined]);
    expect(spans).toMatchObject([
      { attributes: { "agl.call.inexact_reason": "no_prompt_token_ids" } },
      { attributes: { "agl.call.inexact_reason": "no_prompt_token_ids" } },
    ]);
    expect(spans.map(({ error }) => error)).toEqual([undefined, undefined]);
  });

  test("is not taken for one that refuses something else", async () => {
    const { traced, vllm } = start(() => errorReply(400, "the prompt is too long"));
    expect(await messageOfFailure(traced.chat.completions.create(question))).toContain(
      "the prompt is too long",
    );
    expect(vllm.requests.length).toBe(1);
  });
});
