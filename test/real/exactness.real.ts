import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import OpenAI from "openai";
import { adaptProxySpans } from "../../src/adapter/proxy-adapter.ts";
import type { Triplet } from "../../src/adapter/triplet.ts";
import { createProxy, type RecordingProxy } from "../../src/proxy/proxy.ts";
import { type ServedProxy, serveProxy } from "../../src/proxy/serve.ts";
import { createMemorySink } from "../helpers/memory-sink.ts";
import { type ServedModel, smallEngine, validationTasks } from "./small-engine.ts";

/** The recording proxy before real vLLM with the small model: exact ids, and nothing else for the agent. */
const minute = 60_000;
const sink = createMemorySink();
const questions = validationTasks(50).map(({ input }) => input);
const question = questions[1] as string;
let engine: ServedModel;
let proxy: RecordingProxy;
let server: ServedProxy;
let proxied: string;

beforeAll(async () => {
  engine = await smallEngine();
  const { baseUrl, model } = engine;
  const upstream = {
    modelName: model,
    model,
    baseUrl,
    checkpoint: "version_0",
    provider: "hosted_vllm" as const,
  };
  proxy = createProxy({ store: sink, upstreams: [upstream] });
  server = serveProxy({ proxy, hostname: "127.0.0.1", port: 0 });
  proxied = `${server.url}/rollout/ro-1/attempt/at-1/v1`;
}, 10 * minute);

afterAll(async () => {
  await server.stop(0);
  await proxy.close();
});

const parameters = {
  type: "object",
  properties: { expression: { type: "string" } },
  required: ["expression"],
};
const calculate = {
  name: "calculate",
  description: "Calculates/evaluates the given expression.",
  parameters,
};
const chatTools = { tools: [{ type: "function", function: calculate }] };
const messageTools = {
  tools: [{ name: calculate.name, description: calculate.description, input_schema: parameters }],
};
const responseTools = { tools: [{ type: "function", ...calculate }] };

async function ask(baseUrl: string, path: string, body: object): Promise<Response> {
  return await fetch(baseUrl + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: engine.model, temperature: 0, ...body }),
  });
}

/** Asked through the proxy; the row it would become. */
async function tripletOf(path: string, body: object): Promise<Triplet> {
  const response = await ask(proxied, path, body);
  expect([response.status, (await response.text()) !== ""]).toEqual([200, true]);
  await proxy.flush(minute);
  const { triplets } = adaptProxySpans(sink.spans.splice(0));
  expect(triplets).toMatchObject([{ metadata: { exact: true } }]);
  return triplets[0] as Triplet;
}

const idsOf = ({ prompt, response }: Triplet) => [prompt.token_ids, response.token_ids];

async function decode(tokens: number[]): Promise<string> {
  const response = await ask(engine.baseUrl.replace(/\/v1$/, ""), "/detokenize", { tokens });
  return ((await response.json()) as { prompt: string }).prompt;
}

test(
  "200 calls in pairs, half streamed, half with tools: both of a pair have the same ids, which decode to the answer",
  async () => {
    for (const [index, content] of questions.entries()) {
      for (const tools of [{}, chatTools]) {
        const body = { ...tools, messages: [{ role: "user", content }], max_tokens: 64 };
        const plain = await tripletOf("/chat/completions", body);
        const streamed = await tripletOf("/chat/completions", { ...body, stream: true });
        expect({ index, tools, ids: idsOf(streamed) }).toEqual({ index, tools, ids: idsOf(plain) });
        const answer = (await (
          await ask(engine.baseUrl, "/chat/completions", body)
        ).json()) as OpenAI.ChatCompletion;
        const text = await decode(plain.response.token_ids);
        expect(text.replace(/<\|im_end\|>$/, "")).toBe(textOf(answer.choices[0]?.message));
        expect(await decode(plain.prompt.token_ids)).toContain(content);
      }
    }
  },
  8 * minute,
);

/** What the model wrote; a tool call is read out of its text by the server. */
function textOf(message: OpenAI.ChatCompletionMessage | undefined): string {
  const calls = (message?.tool_calls ?? []).map((call) => {
    const { name, arguments: text } = call.type === "function" ? call.function : { name: "", arguments: "" };
    return `<tool_call>\n{"name": "${name}", "arguments": ${text}}\n</tool_call>`;
  });
  return (message?.content ?? "") + calls.join("\n");
}

test(
  "the same question has the same ids by every API, plain and streamed",
  async () => {
    const messages = [{ role: "user", content: question }];
    const chat = await tripletOf("/chat/completions", { ...chatTools, messages, max_tokens: 64 });
    for (const stream of [false, true]) {
      const message = { ...messageTools, messages, max_tokens: 64, stream };
      expect(idsOf(await tripletOf("/messages", message))).toEqual(idsOf(chat));
      const response = { ...responseTools, input: question, max_output_tokens: 64, stream };
      expect(idsOf(await tripletOf("/responses", response))).toEqual(idsOf(chat));
      const prompt = chat.prompt.token_ids;
      const text = await tripletOf("/completions", { prompt, max_tokens: 64, stream });
      expect(text.prompt.token_ids).toEqual(prompt);
    }
  },
  2 * minute,
);

/** Ids and times that every call has of its own, and what the prefix cache changes: its counts, and the last digits. */
function withoutChance(text: string): string {
  return text
    .replaceAll(/\b(chatcmpl-tool|chatcmpl|cmpl|resp|fc|msg|rs|call)[-_][0-9a-f]{16,}/g, "$1")
    .replaceAll(/"(created|created_at|cached_tokens|cache_write_tokens)": ?[\d.]+/g, '"$1":0')
    .replaceAll(/(?<=logprobs?":[^"]*)-?\d+\.[\d.e-]+/g, "0.0")
    .replaceAll(/"signature": ?"[0-9a-f]+"/g, '"signature":""');
}

/** The server joins tokens that come faster than it sends, so two streams of one answer may be cut differently. */
async function expectSame<Shown>(get: (baseUrl: string) => Promise<Shown>): Promise<void> {
  let [direct, through] = [await get(engine.baseUrl), await get(proxied)];
  for (let attempt = 0; attempt < 15 && !Bun.deepEquals(direct, through); attempt += 1) {
    [direct, through] = [await get(engine.baseUrl), await get(proxied)];
  }
  expect(through).toEqual(direct);
}

describe("status, headers and body are those of vLLM alone", () => {
  const messages = [{ role: "user", content: question }];
  const turns = [
    ...messages,
    {
      role: "assistant",
      content: [
        { type: "text", text: "Let me see" },
        { type: "tool_use", id: "t1", name: "calculate", input: { expression: "1+1", digits: 2.0 } },
      ],
    },
    {
      role: "user",
      content: [
        { type: "tool_result", tool_use_id: "t1", content: "2" },
        { type: "text", text: "Go on" },
      ],
    },
  ];
  const cases: [string, string, object][] = [
    ["text", "/chat/completions", { messages, max_tokens: 32 }],
    ["a tool call", "/chat/completions", { ...chatTools, messages, max_tokens: 64 }],
    ["log-probabilities", "/chat/completions", { messages, logprobs: true, top_logprobs: 2, max_tokens: 8 }],
    ["several choices", "/chat/completions", { messages, n: 3, seed: 5, temperature: 1, max_tokens: 8 }],
    ["its own ids and usage", "/chat/completions", { messages, return_token_ids: true, max_tokens: 8 }],
    [
      "a prompt that is too long",
      "/chat/completions",
      { messages: [{ role: "user", content: "x ".repeat(3000) }] },
    ],
    ["a wrong value", "/chat/completions", { messages, temperature: -2 }],
    ["a text completion", "/completions", { prompt: question, max_tokens: 8 }],
    ["an echo", "/completions", { prompt: "Hello", echo: true, max_tokens: 8 }],
    ["log-probabilities of text", "/completions", { prompt: question, logprobs: 2, max_tokens: 8 }],
    ["a message", "/messages", { messages, system: "Größe", max_tokens: 32 }],
    ["a message with a tool call", "/messages", { ...messageTools, messages, max_tokens: 64 }],
    ["a message after a tool's result", "/messages", { ...messageTools, messages: turns, max_tokens: 64 }],
    ["a message cut by a stop text", "/messages", { messages, stop_sequences: ["e"], max_tokens: 32 }],
    [
      "a message with a system text inside",
      "/messages",
      {
        messages: [...messages, { role: "system", content: "Be brief" }, ...messages],
        max_tokens: 8,
      },
    ],
    ["a message without a limit", "/messages", { messages }],
    ["a message with too high a limit", "/messages", { messages, max_tokens: 5000 }],
    ["a response", "/responses", { input: question, max_output_tokens: 32 }],
    [
      "a response with a tool call",
      "/responses",
      { ...responseTools, input: messages, max_output_tokens: 64 },
    ],
  ];
  const ways = cases.flatMap(([name, path, body]) => [
    [name, path, body] as const,
    [`${name}, streamed`, path, { ...body, stream: true }] as const,
  ]);
  const options = { stream: true, stream_options: { include_usage: true, continuous_usage_stats: true } };
  const all = [
    ...ways,
    ["usage, streamed", "/chat/completions", { messages, max_tokens: 8, ...options }] as const,
  ];

  test.each(all)(
    "%s",
    async (_, path, body) => {
      await expectSame(async (baseUrl) => {
        const response = await ask(baseUrl, path, body);
        const headers = [...response.headers].filter(([name]) => !["date", "content-length"].includes(name));
        return { status: response.status, headers, text: withoutChance(await response.text()) };
      });
    },
    minute,
  );
});

describe("libraries get event for event what vLLM alone gives them", () => {
  test(
    "the OpenAI library of JavaScript",
    async () => {
      await expectSame(async (baseURL) => {
        const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
        const body = { model: engine.model, temperature: 0, max_tokens: 64, ...chatTools } as const;
        const request = { ...body, messages: [{ role: "user" as const, content: question }] };
        const plain = await client.chat.completions.create(
          request as OpenAI.ChatCompletionCreateParamsNonStreaming,
        );
        const chunks = await Array.fromAsync(
          await client.chat.completions.create({
            ...request,
            stream: true,
          } as OpenAI.ChatCompletionCreateParamsStreaming),
        );
        return withoutChance(JSON.stringify([plain, chunks]));
      });
    },
    minute,
  );

  test(
    "the OpenAI and Anthropic libraries of Python",
    async () => {
      const script = join(import.meta.dir, "library_events.py");
      const lines = async (baseUrl: string) => {
        const child = Bun.spawn([engine.python, script, baseUrl, engine.model, question], {
          env: { ...process.env, PYTHONDONTWRITEBYTECODE: undefined },
          stdout: "pipe",
          stderr: "pipe",
        });
        const [output, errors] = await Promise.all([
          new Response(child.stdout).text(),
          new Response(child.stderr).text(),
        ]);
        expect([await child.exited, errors]).toEqual([0, ""]);
        return output.trim().split("\n").map(withoutChance);
      };
      expect(await lines(proxied)).toHaveLength(9);
      await expectSame(lines);
    },
    5 * minute,
  );
});
