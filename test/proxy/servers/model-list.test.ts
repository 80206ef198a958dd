import { afterEach, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { directFetch } from "../../../src/client/loopback-fetch.ts";
import { silentLogger } from "../../../src/log.ts";
import { parseModelList } from "../../../src/proxy/servers/model-list.ts";
import { UpstreamTable } from "../../../src/proxy/servers/upstream-table.ts";
import type { Upstream } from "../../../src/proxy/servers/upstreams.ts";
import { type FakeVllm, replyAs, startFakeVllm } from "../../helpers/fake-vllm.ts";
import { type ProxyFixture, startProxyFixture } from "../../helpers/proxy-fixture.ts";

const recipe = {
  model_name: "Qwen3-4B-Instruct",
  litellm_params: { model: "hosted_vllm/models/version_0", api_base: "http://localhost:12316/v1" },
};

const parse = (list: unknown, environment: Record<string, string> = {}) =>
  parseModelList(list, { environment });
const entry = (parameters: object, more: object = {}) => ({
  ...recipe,
  ...more,
  litellm_params: { ...recipe.litellm_params, ...parameters },
});

test("the recipe's entry", () => {
  expect(parse([recipe])).toEqual([
    {
      modelName: "Qwen3-4B-Instruct",
      model: "models/version_0",
      provider: "hosted_vllm",
      baseUrl: "http://localhost:12316/v1",
      checkpoint: "version_0",
      weight: 1,
      requestDefaults: {},
    },
  ]);
});

test("openai has an address of its own; only the first segment is the provider", () => {
  const [hosted, other] = parse([
    { model_name: "a", litellm_params: { model: "openai/gpt-4.1-mini", api_key: "sk-1" } },
    { model_name: "b", litellm_params: { model: "openai/org/model", api_base: "http://h:1/v1/" } },
  ]);
  expect(hosted).toMatchObject({
    model: "gpt-4.1-mini",
    baseUrl: "https://api.openai.com/v1",
    apiKey: "sk-1",
    checkpoint: "gpt-4.1-mini",
  });
  expect(other).toMatchObject({ model: "org/model", baseUrl: "http://h:1/v1" });
});

test("keys of the environment, defaults of the request, and a checkpoint's own name", () => {
  const list = [
    entry(
      {
        api_key: "os.environ/KEY",
        temperature: 0.5,
        extra_body: { top_k: 5 },
        tags: ["x"],
        max_tokens: null,
      },
      { model_info: { checkpoint: "mine", id: "ignored" } },
    ),
  ];
  expect(parse(list, { KEY: "secret" })[0]).toMatchObject({
    apiKey: "secret",
    checkpoint: "mine",
    requestDefaults: { temperature: 0.5, top_k: 5 },
  });
});

describe("refusals name the place and what to do", () => {
  test.each([
    ["no list", {}, /model_list is no list/],
    ["no entry", [1], /model_list\[0\]: /],
    ["no name", [{ litellm_params: recipe.litellm_params }], /model_list\[0\]\.model_name/],
    ["an empty name", [{ ...recipe, model_name: "" }], /model_list\[0\]\.model_name: is empty/],
    ["no model", [recipe, entry({ model: undefined })], /model_list\[1\]\.litellm_params\.model/],
    ["no provider", [entry({ model: "gpt-4" })], /\.model is "gpt-4"/],
    ["another provider", [entry({ model: "anthropic/claude" })], /\.model is "anthropic\/claude"/],
    ["no id", [entry({ model: "openai/" })], /\.model is "openai\/"/],
    ["no address", [entry({ api_base: null })], /\.api_base is missing/],
    ["a wrong address", [entry({ api_base: "http://h:1" })], /\.api_base is "http:\/\/h:1"/],
    ["a password in it", [entry({ api_base: "http://me:sesame@h:1" })], /is "http:\/\/\*{8}@h:1"$/m],
    ["an unset key", [entry({ api_key: "os.environ/NONE" })], /\.api_key: NONE is not set/],
    [
      "no key where none is no use",
      [entry({ model: "openai/gpt-4.1", api_base: null })],
      /\.api_key is missing, and https:\/\/api\.openai\.com/,
    ],
    ["what only LiteLLM knows", [entry({ num_retries: 2 })], /\.num_retries cannot be set/],
    ["what only the agent decides", [entry({ stream: true })], /\.stream cannot be set/],
    ["a negative weight", [entry({ weight: -1 })], /\.weight/],
    [
      "no weight at all",
      [entry({ weight: 0 }), entry({ weight: 0 })],
      /every entry of Qwen3-4B-Instruct has 0/,
    ],
  ])("%s", (_, list, message) => {
    expect(() => parse(list)).toThrow(message);
  });
});

describe("entries of one name", () => {
  const shares = (upstreams: Upstream[]) => {
    let point = 0;
    const table = new UpstreamTable(upstreams, {
      fetch: directFetch,
      log: silentLogger,
      random: () => point,
      holds: false,
      firstPauseMs: 1_000,
      onAvailable() {},
    });
    const counts: Record<string, number> = {};
    for (let step = 0; step < 1_000; step++) {
      point = step / 1_000;
      const { checkpoint } = table.choose({ modelName: "Qwen3-4B-Instruct", mayWait: false })!.upstream;
      counts[checkpoint] = (counts[checkpoint] ?? 0) + 1;
    }
    return counts;
  };
  const version = (number: number, more: object) =>
    entry({ model: `hosted_vllm/version_${number}`, ...more });

  test("share its calls evenly, or by weight, rpm or tpm", () => {
    expect(shares(parse([version(0, {}), version(1, {})]))).toEqual({ version_0: 500, version_1: 500 });
    expect(shares(parse([version(0, { weight: 9 }), version(1, { weight: 1 })]))).toEqual({
      version_0: 900,
      version_1: 100,
    });
    expect(shares(parse([version(0, { rpm: 1 }), version(1, { rpm: 3 }), version(2, {})]))).toEqual({
      version_0: 250,
      version_1: 750,
    });
  });

  test("whatever the weights, each gets its share and one without weight none", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(20), { minLength: 1, maxLength: 5 }), (weights) => {
        const total = weights.reduce((sum, weight) => sum + weight, 0);
        fc.pre(total > 0);
        const counts = shares(parse(weights.map((weight, index) => version(index, { weight }))));
        weights.forEach((weight, index) => {
          const expected = (1_000 * weight) / total;
          expect(Math.abs((counts[`version_${index}`] ?? 0) - expected)).toBeLessThanOrEqual(1);
          if (weight === 0) expect(counts[`version_${index}`]).toBeUndefined();
        });
      }),
    );
  });
});

describe("through the proxy", () => {
  let fixture: ProxyFixture | undefined;
  let other: FakeVllm | undefined;

  afterEach(async () => {
    await fixture?.stop();
    await other?.stop();
  });

  const reply = { prompt_token_ids: [1, 2], pieces: [{ text: "ok", token_ids: [3] }] };

  function start(parameters: object, provider = "hosted_vllm") {
    fixture = startProxyFixture((request) => replyAs(request, reply));
    const list = [
      {
        model_name: "agent-model",
        litellm_params: { model: `${provider}/m`, api_base: fixture.vllm.baseUrl, ...parameters },
      },
    ];
    fixture.proxy.setUpstreams(parse(list));
    return fixture;
  }

  test("defaults are used where the agent names none, and the span has the values in force", async () => {
    const { post, vllm, spans } = start({
      temperature: 0.25,
      top_k: 5,
      chat_template_kwargs: { thinking: false },
    });
    await post({ temperature: 0 });
    await post({ temperature: null, stream: true }).then((answer) => answer.text());
    await post({}, { path: "/v1/completions" });
    await post({}, { path: "/v1/embeddings" });
    expect(vllm.requests.map(({ body }) => [body["temperature"], body["top_k"]])).toEqual([
      [0, 5],
      [0.25, 5],
      [0.25, 5],
      [undefined, undefined],
    ]);
    expect(vllm.requests[0]!.body["chat_template_kwargs"]).toEqual({ thinking: false });
    const [first, second] = await spans("litellm_request");
    expect(first!.attributes).toMatchObject({ "gen_ai.request.temperature": 0, "gen_ai.request.top_k": 5 });
    expect(second!.attributes).toMatchObject({
      "gen_ai.request.temperature": 0.25,
      "gen_ai.request.top_p": 1,
    });
    const [raw] = await spans("raw_gen_ai_request");
    expect(raw!.attributes["llm.hosted_vllm.chat_template_kwargs"]).toBe("{'thinking': False}");
  });

  test("token ids are asked for where the provider knows them, or the entry says so", async () => {
    const asked = async (parameters: object, provider?: string) => {
      const { post, vllm, spans, stop } = start(parameters, provider);
      await post({ stream: true }).then((answer) => answer.text());
      await post({});
      const requests = vllm.requests.map(({ body }) => body["return_token_ids"]);
      const attributes = (await spans("raw_gen_ai_request")).map((span) => span.attributes);
      const usage = vllm.requests[0]!.body["stream_options"];
      await stop();
      return { requests, attributes, usage };
    };
    expect((await asked({})).requests).toEqual([true, true]);
    expect((await asked({ return_token_ids: false })).requests).toEqual([undefined, undefined]);
    expect((await asked({ return_token_ids: true }, "openai")).requests).toEqual([true, true]);
    const openai = await asked({}, "openai");
    expect(openai.requests).toEqual([undefined, undefined]);
    expect(openai.usage).toEqual({ include_usage: true });
    expect(openai.attributes[0]).toMatchObject({ "agl.call.inexact_reason": "server_gives_no_token_ids" });
    expect(Object.keys(openai.attributes[0]!)).toContain("llm.openai.choices");
    expect(Object.keys(openai.attributes[0]!)).not.toContain("llm.openai.extra_body");
  });

  test("different names are routed by name, keys go where they belong, an unknown name is a 400", async () => {
    const { post, vllm, proxy, server } = start({});
    other = startFakeVllm((request) => replyAs(request, reply));
    proxy.setUpstreams(
      parse([
        { model_name: "agent-model", litellm_params: { model: "hosted_vllm/m", api_base: vllm.baseUrl } },
        {
          model_name: "judge",
          litellm_params: { model: "openai/j", api_base: other.baseUrl, api_key: "sk" },
        },
      ]),
    );
    await post({});
    await post({ model: "judge" });
    const refused = await post({ model: "unknown" });
    expect(vllm.requests.map(({ body }) => body["model"])).toEqual(["m"]);
    expect(other.requests.map(({ body, headers }) => [body["model"], headers.get("authorization")])).toEqual([
      ["j", "Bearer sk"],
    ]);
    expect(refused.status).toBe(400);
    expect((await refused.json()).error.message).toContain("agent-model, judge");
    const models = await (await fetch(`${server.url}/v1/models`)).json();
    expect(models.data.map(({ id }: { id: string }) => id)).toEqual(["agent-model", "judge"]);
  });
});
