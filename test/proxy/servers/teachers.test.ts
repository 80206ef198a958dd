import { afterEach, describe, expect, test } from "bun:test";
import type { LogLevel, Logger } from "../../../src/log.ts";
import { parseModelList } from "../../../src/proxy/servers/model-list.ts";
import { errorReply, type FakeScript, replyAs } from "../../helpers/fake-vllm.ts";
import { type ProxyFixture, startProxyFixture } from "../../helpers/proxy-fixture.ts";

const key = "sk-teacher-0123456789";
const reply = { prompt_token_ids: [1, 2], pieces: [{ text: "ok", token_ids: [3] }] };

let fixture: ProxyFixture;
let lines: string[];
afterEach(() => fixture.stop());

/** A provider of the OpenAI API, by an entry as LiteLLM writes it. */
function start(script: FakeScript = (request) => replyAs(request, reply)): ProxyFixture {
  lines = [];
  const write = (level: LogLevel) => (message: string, fields?: object) =>
    void lines.push(`${level} ${message} ${JSON.stringify(fields ?? {})}`);
  const log: Logger = {
    debug: write("debug"),
    info: write("info"),
    warning: write("warning"),
    error: write("error"),
  };
  fixture = startProxyFixture(script, { log });
  const list = [
    {
      model_name: "agent-model",
      litellm_params: {
        model: "openai/gpt-teacher",
        api_base: fixture.vllm.baseUrl,
        api_key: "os.environ/TEACHER_KEY",
      },
    },
  ];
  fixture.proxy.setUpstreams(parseModelList(list, { environment: { TEACHER_KEY: key } }));
  return fixture;
}

const routes: [string, object][] = [
  ["chat/completions", {}],
  ["chat/completions", { stream: true }],
  ["completions", { prompt: "Hi", stream: true }],
  ["messages", { max_tokens: 5, stream: true }],
  ["responses", { input: "Hi" }],
];

/** What OpenAI's API has for these calls; anything else it answers with 400. */
const known = new Set([
  "model",
  "messages",
  "stream",
  "stream_options",
  "prompt",
  "input",
  "max_completion_tokens",
]);

describe("a teacher elsewhere", () => {
  test.each(routes)("%s %j: our key, nothing that only vLLM knows", async (route, body) => {
    const { post, vllm } = start();
    const path = `/rollout/ro-1/attempt/at-1/v1/${route}`;
    const answer = await post(body, {
      path,
      headers: { authorization: "Bearer agent", "x-api-key": "agent" },
    });
    await answer.text();
    const [request] = vllm.requests;
    expect(request?.body.model).toBe("gpt-teacher");
    expect(Object.keys(request?.body ?? {}).filter((name) => !known.has(name))).toEqual([]);
    expect(request?.headers.get("authorization")).toBe(`Bearer ${key}`);
    expect(request?.headers.get("x-api-key")).toBeNull();
  });

  test.each([false, true])("its calls are recorded as such that have no ids, stream %p", async (stream) => {
    const { post, proxy, spans } = start();
    await (await post({ stream })).text();
    const [raw] = await spans("raw_gen_ai_request");
    expect(raw?.attributes).toMatchObject({
      "agl.call.token_exact": false,
      "agl.call.inexact_reason": "server_gives_no_token_ids",
    });
    expect(proxy.statistics().inexact).toEqual({ server_gives_no_token_ids: 1 });
  });

  test("a limit of rate passes as it came, and is not repeated", async () => {
    const headers = { "retry-after": "17", "x-ratelimit-remaining-tokens": "0" };
    const { post, vllm } = start(() => errorReply(429, "slow down", headers));
    const answer = await post({});
    expect(answer.status).toBe(429);
    expect(Object.fromEntries(answer.headers)).toMatchObject(headers);
    expect(await answer.text()).toBe(
      JSON.stringify({ error: { message: "slow down", type: "BadRequestError", param: null, code: 429 } }),
    );
    expect(vllm.requests).toHaveLength(1);
  });
});

describe("the key is in no record, log, statistic or error", () => {
  const everywhere = async () =>
    JSON.stringify([
      await fixture.spans(),
      lines,
      await (await fetch(`${fixture.server.url}/statistics`)).json(),
    ]);

  test("of an answer", async () => {
    const { post } = start();
    await (await post({ stream: true })).text();
    expect(await everywhere()).not.toContain(key);
  });

  test.each(["chat/completions", "messages", "embeddings"])(
    "of a server that repeats it, %s",
    async (route) => {
      const { post } = start((request) =>
        errorReply(401, `Incorrect API key: ${request.headers.get("authorization")}`),
      );
      const answer = await post({ max_tokens: 5 }, { path: `/rollout/ro-1/attempt/at-1/v1/${route}` });
      expect(answer.status).toBe(401);
      expect((await answer.json()).error.message).toBe("Incorrect API key: Bearer [key]");
      expect(await everywhere()).not.toContain(key);
      if (route !== "embeddings") expect(await everywhere()).toContain("Bearer [key]");
    },
  );

  test("of a stream that ends with it", async () => {
    const { post } = start(() => ({
      headers: { "content-type": "text/event-stream" },
      parts: [`data: {"error":{"message":"no credit on ${key}"}}\n\n`],
    }));
    await (await post({ stream: true })).text();
    expect(await everywhere()).not.toContain(key);
    expect(lines.join()).toContain("no credit on [key]");
  });

  test("of a server that is not there", async () => {
    const { post, vllm } = start();
    await vllm.stop();
    const answer = await post({});
    expect(await answer.text()).not.toContain(key);
    expect(await everywhere()).not.toContain(key);
  });
});
