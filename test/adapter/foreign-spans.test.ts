import { describe, expect, test } from "bun:test";
import { adaptProxySpans } from "../../src/adapter/proxy-adapter.ts";
import { adaptTracerSpans } from "../../src/adapter/tracer-adapter.ts";
import type { Attributes, Span } from "../../src/protocol/types.ts";
import { makeSpan, rewardSpan } from "../helpers/spans.ts";

const span = (name: string, attributes: object, changes: Partial<Span> = {}) =>
  makeSpan("ro-1", "at-1", name, attributes as Attributes, changes);
const reward = (value: number, sequence_id: number) => ({
  ...rewardSpan("ro-1", "at-1", value),
  sequence_id,
  start_time: 2_000_000_000,
  end_time: 2_000_000_000,
});
const reasons = ({ dropped }: { dropped: { reason: string }[] }) => dropped.map(({ reason }) => reason);

/** As the original's proxy stores a call with tools. */
const rawAttributes = {
  "llm.hosted_vllm.messages":
    "[{'role': 'system', 'content': 'Answer with the calculator.'}, {'role': 'user', 'content': \"What is 12*7? Don't guess.\"}]",
  "llm.hosted_vllm.tool_choice": "auto",
  "llm.hosted_vllm.temperature": 0.0,
  "llm.hosted_vllm.extra_body": "{'return_token_ids': True}",
  "llm.hosted_vllm.id": "chatcmpl-5b1e0c",
  "llm.hosted_vllm.object": "chat.completion",
  "llm.hosted_vllm.created": 1767000000,
  "llm.hosted_vllm.model": "models/version_0",
  "llm.hosted_vllm.choices":
    "[{'index': 0, 'message': {'role': 'assistant', 'content': None, 'refusal': None, 'tool_calls': [{'id': 'chatcmpl-tool-7f3a', 'type': 'function', 'function': {'name': 'calculate', 'arguments': '{\"expression\": \"12*7\"}'}}]}, 'logprobs': {'content': [{'token': '<tool_call>', 'logprob': -0.0021, 'bytes': [60, 116], 'top_logprobs': []}]}, 'finish_reason': 'tool_calls', 'stop_reason': None, 'token_ids': [151657, 198, 4913, 151658, 151645]}]",
  "llm.hosted_vllm.service_tier": "",
  "llm.hosted_vllm.usage":
    "{'prompt_tokens': 8, 'total_tokens': 13, 'completion_tokens': 5, 'prompt_tokens_details': None}",
  "llm.hosted_vllm.prompt_token_ids": "[151644, 8948, 198, 16141, 151645, 198, 151644, 872]",
  "llm.hosted_vllm.kv_transfer_params": "",
};
const olderDialect = {
  "metadata.requester_custom_headers":
    "{'x-rollout-id': 'ro-1', 'x-attempt-id': 'at-1', 'x-sequence-id': '1'}",
  hidden_params: '{"model_id": "m"}',
  "gen_ai.cost.total_cost": 0,
  "gen_ai.request.model": "models/version_0",
  "llm.request.type": "acompletion",
  "gen_ai.system": "hosted_vllm",
  "llm.is_streaming": "False",
  "gen_ai.response.id": "chatcmpl-5b1e0c",
  "gen_ai.response.model": "hosted_vllm/models/version_0",
  "llm.usage.total_tokens": 13,
  "gen_ai.usage.completion_tokens": 5,
  "gen_ai.usage.prompt_tokens": 8,
  "gen_ai.prompt.0.role": "user",
  "gen_ai.prompt.0.content": "What is 12*7?",
  "gen_ai.completion.0.finish_reason": "tool_calls",
  "gen_ai.completion.0.role": "assistant",
  "gen_ai.completion.0.function_call.name": "calculate",
  "gen_ai.completion.0.function_call.arguments": '{"expression": "12*7"}',
};
const laterDialect = {
  "gen_ai.operation.name": "chat",
  "gen_ai.request.model": "models/version_0",
  "gen_ai.response.id": "chatcmpl-5b1e0c",
  "gen_ai.response.finish_reasons": ["tool_calls"],
  "gen_ai.usage.input_tokens": 8,
  "gen_ai.usage.output_tokens": 5,
  "gen_ai.usage.total_tokens": 13,
  "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"What is 12*7?"}]}]',
  "gen_ai.output.messages": '[{"role":"assistant","parts":[],"finish_reason":"tool_calls"}]',
};

/** All that the original's proxy writes of one request; null times and the junk of spans written inside its process. */
function liteLlmSpans(normalised: object, changes: Partial<Span> = {}): Span[] {
  const place = { sequence_id: 1, trace_id: "6f0d", ...changes };
  const below = { ...place, parent_id: "b2" };
  return [
    span("Received Proxy Server Request", {}, { ...place, span_id: "b2" }),
    span("proxy_pre_call", { call_type: "acompletion", service: "p" }, below),
    span("router", { call_type: "async_get_available_deployment", service: "router" }, below),
    span("self", { call_type: "make_openai_chat_completion_request <- x", service: "self" }, below),
    span("litellm_request", normalised, { ...below, kind: "SpanKind.INTERNAL", lock: {}, limits: null }),
    span("raw_gen_ai_request", rawAttributes, { ...below, sampler: "AlwaysOn" }),
  ];
}

describe("what the original's proxy wrote", () => {
  test.each<[string, object, Partial<Span>]>([
    ["in the older dialect", olderDialect, {}],
    ["in the later dialect", laterDialect, {}],
    ["without times", olderDialect, { start_time: null, end_time: null }],
    ["with one id for all its spans", laterDialect, { span_id: "same" }],
  ])("%s is one exact call with its reward", (_, normalised, changes) => {
    const adapted = adaptProxySpans([...liteLlmSpans(normalised, changes), reward(1, 2)]);
    expect(adapted).toMatchObject({
      triplets: [
        {
          prompt: { token_ids: [151644, 8948, 198, 16141, 151645, 198, 151644, 872] },
          response: { token_ids: [151657, 198, 4913, 151658, 151645] },
          reward: 1,
          metadata: { exact: true, response_id: "chatcmpl-5b1e0c", finish_reason: "tool_calls" },
        },
      ],
      dropped: [],
      unassignedRewards: [],
    });
  });

  test.each([olderDialect, laterDialect])("a normalised span alone has no ids, and says so", (attributes) => {
    expect(reasons(adaptProxySpans([span("litellm_request", attributes)]))).toEqual(["no_prompt_token_ids"]);
  });

  test("a request that failed is one failed call, whatever its spans", () => {
    const place = { sequence_id: 1, status: { status_code: "ERROR" as const, description: "500" } };
    const failed = [
      span("Received Proxy Server Request", {}, place),
      span("litellm_request", { "error.type": "x" }, place),
      span("litellm_request", { "error.code": "500" }, place),
      span("Failed Proxy Server Request", { exception: "x" }, place),
    ];
    expect(adaptProxySpans(failed).dropped).toEqual([
      { sequence_id: 1, response_id: null, reason: "failed" },
    ]);
  });

  test("what is normalised may be on the root: one call, also when it failed", () => {
    const root = (attributes: object, changes: Partial<Span> = {}) =>
      span("Received Proxy Server Request", attributes, { sequence_id: 1, ...changes });
    const raw = span("raw_gen_ai_request", rawAttributes, { sequence_id: 1 });
    expect(adaptProxySpans([root(laterDialect), raw])).toMatchObject({
      triplets: [{ metadata: { exact: true } }],
      dropped: [],
    });
    const failed = { status: { status_code: "ERROR" as const, description: "500" } };
    expect(reasons(adaptProxySpans([root({ "gen_ai.request.model": "m" }, failed)]))).toEqual(["failed"]);
    expect(adaptProxySpans([root({}, failed)]).dropped).toEqual([]);
  });

  test("of several choices, the normalised span holds the ids of the first and the count of all", () => {
    const attributes = {
      ...olderDialect,
      prompt_token_ids: [1, 2, 3, 4, 5, 6, 7, 8],
      response_token_ids: [9, 10],
      "gen_ai.completion.1.role": "assistant",
    };
    expect(adaptProxySpans([span("litellm_request", attributes)]).triplets).toMatchObject([
      { response: { token_ids: [9, 10] }, metadata: { exact: true } },
    ]);
  });
});

describe("ids that the spans of a call contradict are not exact", () => {
  const normalised = { "gen_ai.response.id": "C1", prompt_token_ids: [1], response_token_ids: [2] };
  const raw = {
    "llm.x.id": "C1",
    "llm.x.prompt_token_ids": "[1]",
    "llm.x.response_token_ids": "[[2]]",
  };
  test.each<[string, object, string]>([
    ["other ids", { ...raw, "llm.x.response_token_ids": "[[3]]" }, "ids_disagree"],
    ["another count", { ...raw, "llm.x.usage": "{'completion_tokens': 2}" }, "response_count_mismatch"],
    ["a mark", { ...raw, "agl.call.token_exact": false, "agl.call.inexact_reason": "no_usage" }, "no_usage"],
  ])("%s", (_, attributes, reason) => {
    const spans = [
      span("litellm_request", normalised, { sequence_id: 1 }),
      span("raw_gen_ai_request", attributes, { sequence_id: 1 }),
      reward(1, 2),
    ];
    for (const ordered of [spans, spans.toReversed()]) {
      expect(adaptProxySpans(ordered)).toMatchObject({
        triplets: [{ prompt: { token_ids: [] }, reward: 1, metadata: { exact: false, reason } }],
        dropped: [],
      });
    }
  });

  test("what is missing in one of them contradicts nothing", () => {
    const without = { "llm.x.id": "C1", "llm.x.messages": "[]" };
    const spans = [
      span("litellm_request", normalised, { sequence_id: 1 }),
      span("raw_gen_ai_request", without, { sequence_id: 1 }),
    ];
    expect(adaptProxySpans(spans).triplets).toMatchObject([{ prompt: { token_ids: [1] } }]);
  });
});

/** Of tracers that know no token ids. */
const writers: [string, Span][] = [
  [
    "OpenTelemetry's conventions",
    span("chat qwen", {
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "openai",
      "gen_ai.request.model": "qwen",
      "gen_ai.response.id": "C1",
      "gen_ai.response.finish_reasons": ["stop"],
      "gen_ai.usage.input_tokens": 8,
      "gen_ai.usage.output_tokens": 5,
      "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"Hi"}]}]',
      "gen_ai.output.messages":
        '[{"role":"assistant","parts":[{"type":"text","content":"Ho"}],"finish_reason":"stop"}]',
    }),
  ],
  [
    "OpenTelemetry's older conventions",
    span("chat qwen", {
      "gen_ai.system": "openai",
      "gen_ai.request.model": "qwen",
      "gen_ai.response.id": "C1",
      "gen_ai.response.finish_reasons": ["stop"],
      "gen_ai.prompt.0.role": "user",
      "gen_ai.prompt.0.content": "Hi",
      "gen_ai.completion.0.role": "assistant",
      "gen_ai.completion.0.content": "Ho",
    }),
  ],
  [
    "OpenInference",
    span("ChatCompletion", {
      "openinference.span.kind": "LLM",
      "gen_ai.response.id": "C1",
      "llm.token_count.prompt": 8,
      "llm.token_count.completion": 5,
      "llm.finish_reason": "stop",
      "llm.input_messages.0.message.role": "user",
      "llm.input_messages.0.message.content": "Hi",
      "llm.output_messages.0.message.role": "assistant",
      "llm.output_messages.0.message.content": "Ho",
    }),
  ],
  [
    "OpenLLMetry",
    span("anthropic.chat", {
      "llm.request.type": "chat",
      "gen_ai.response.id": "C1",
      "gen_ai.prompt.0.role": "user",
      "gen_ai.prompt.0.content": "Hi",
      "gen_ai.completion.0.role": "assistant",
      "gen_ai.completion.0.content": "Ho",
      "gen_ai.completion.0.finish_reason": "stop",
    }),
  ],
];

describe("calls of tracers that know no token ids", () => {
  test.each(writers)("%s: kept by the tracer's adapter with words and reward, and the reason", (_, call) => {
    expect(adaptTracerSpans([call, { ...reward(1, 9), parent_id: null }])).toMatchObject({
      triplets: [
        {
          prompt: { token_ids: [], raw_content: [{ role: "user", content: "Hi" }] },
          response: { token_ids: [], raw_content: [{ role: "assistant", content: "Ho" }] },
          reward: 1,
          metadata: {
            exact: false,
            reason: "no_prompt_token_ids",
            response_id: "C1",
            finish_reason: "stop",
          },
        },
      ],
      dropped: [],
    });
  });

  test.each(writers)("%s: counted by the proxy's adapter, which has nothing of them", (_, call) => {
    const { triplets, dropped } = adaptProxySpans([call]);
    expect(triplets).toEqual([]);
    expect(dropped).toEqual([
      { sequence_id: call.sequence_id, response_id: "C1", reason: "not_through_proxy" },
    ]);
  });

  test.each(writers)("%s: not counted where the proxy saw the call, too", (_, call) => {
    const raw = (id: string) =>
      span(
        "raw_gen_ai_request",
        { "llm.x.id": id, "llm.x.prompt_token_ids": "[1]", "llm.x.response_token_ids": "[[2]]" },
        { start_time: 10, end_time: 11 },
      );
    const around = { ...call, start_time: 9, end_time: 12 };
    const nameless = { ...around, attributes: { ...call.attributes, "gen_ai.response.id": "" } };
    for (const spans of [
      [raw("C1"), call],
      [raw("C1"), nameless],
    ]) {
      expect(adaptProxySpans(spans)).toMatchObject({ triplets: [{ reward: null }], dropped: [] });
    }
    const elsewhere = { ...nameless, start_time: 12, end_time: 13 };
    expect(reasons(adaptProxySpans([raw("C1"), elsewhere]))).toEqual(["not_through_proxy"]);
    expect(reasons(adaptProxySpans([raw("C2"), call]))).toEqual(["not_through_proxy"]);
  });

  test("whole agents, tools and embeddings are no calls", () => {
    const spans = ["invoke_agent", "execute_tool", "embeddings", "create_agent"].map((operation) =>
      span(`${operation} x`, { "gen_ai.operation.name": operation, "gen_ai.request.model": "m" }),
    );
    expect(adaptTracerSpans(spans)).toEqual({ triplets: [], dropped: [], unassignedRewards: [] });
    expect(adaptProxySpans(spans)).toEqual({ triplets: [], dropped: [], unassignedRewards: [] });
  });
});

describe("the tracer's adapter", () => {
  const ids = { prompt_token_ids: [1], response_token_ids: [2] };

  test("says so of calls that only the proxy saw", () => {
    const spans = liteLlmSpans(olderDialect);
    expect(adaptTracerSpans(spans).dropped).toEqual([
      { sequence_id: 1, response_id: "chatcmpl-5b1e0c", reason: "not_traced" },
    ]);
  });

  test("says so of calls whose names were not asked for, unless it knows them by another span", () => {
    const spans = [
      span("my.model", { "gen_ai.response.id": "C1", ...ids }, { span_id: "outer" }),
      span("chat m", { "gen_ai.operation.name": "chat", "gen_ai.response.id": "C1" }, { parent_id: "outer" }),
      span("chat m", { "gen_ai.operation.name": "chat", "gen_ai.response.id": "C2" }),
    ];
    const { triplets, dropped } = adaptTracerSpans(spans, { llmCallMatch: "^my\\." });
    expect(triplets.map(({ metadata }) => metadata.response_id)).toEqual(["C1"]);
    expect(dropped).toMatchObject([{ response_id: "C2", reason: "name_not_matched" }]);
  });

  test("takes the ids from whichever of several tracers knows them", () => {
    const outer = span(
      "chat m",
      { "gen_ai.operation.name": "chat", "gen_ai.response.id": "C1" },
      { span_id: "outer" },
    );
    const inner = span(
      "openai.chat.completion",
      { "gen_ai.response.id": "C1", ...ids, "agl.call.checkpoint": "version_1" },
      { parent_id: "outer" },
    );
    const { triplets, dropped } = adaptTracerSpans([outer, inner]);
    expect(triplets).toMatchObject([
      {
        prompt: { token_ids: [1] },
        metadata: { exact: true, sequence_id: outer.sequence_id, checkpoint: "version_1" },
      },
    ]);
    expect(reasons({ dropped })).toEqual(["duplicate"]);
  });

  test("a call that failed beside another one is a failed call, not a part of the other", () => {
    const times = (start_time: number, end_time: number) => ({ start_time, end_time, parent_id: null });
    const spans = [
      span("openai.chat.completion", { "gen_ai.response.id": "C1", ...ids }, times(1, 9)),
      span(
        "openai.chat.completion",
        {},
        { ...times(2, 3), status: { status_code: "ERROR", description: "500" } },
      ),
    ];
    expect(reasons(adaptTracerSpans(spans))).toEqual(["failed"]);
  });
});

// T54
test("a judge's call through the proxy is no row and takes no reward where a tracer saw that it was a judge's", () => {
  const proxied = (id: string, sequence_id: number) =>
    span(
      "raw_gen_ai_request",
      { "llm.x.id": id, "llm.x.prompt_token_ids": "[1]", "llm.x.response_token_ids": "[[2]]" },
      { sequence_id },
    );
  const judge = span(
    "agentlightning.operation",
    { "agentlightning.operation.name": "agentlightning.reward" },
    { span_id: "judge", sequence_id: 2 },
  );
  const asked = span(
    "openai.chat.completion",
    { "gen_ai.response.id": "J" },
    { parent_id: "judge", sequence_id: 4 },
  );
  const spans = [proxied("A", 1), judge, proxied("J", 3), asked, reward(1, 5)];
  expect(adaptProxySpans(spans)).toMatchObject({
    triplets: [{ reward: 1, metadata: { response_id: "A" } }],
    dropped: [{ sequence_id: 3, response_id: "J", reason: "in_reward" }],
  });
});

test("an attempt of many calls, seen by both, is read in one go", () => {
  const spans = Array.from({ length: 4_000 }, (_, index) => {
    const times = { start_time: index, end_time: index + 0.9, sequence_id: 2 * index };
    return [
      span("openai.chat.completion", {}, { ...times, sequence_id: 2 * index + 1 }),
      span(
        "raw_gen_ai_request",
        { "llm.x.prompt_token_ids": `[${index}]`, "llm.x.response_token_ids": "[[2]]" },
        { ...times, start_time: index + 0.1, end_time: index + 0.8 },
      ),
    ];
  }).flat();
  for (const adapt of [adaptProxySpans, adaptTracerSpans]) {
    const { triplets, dropped } = adapt(spans);
    expect([triplets.length, dropped.length]).toEqual([4_000, 0]);
  }
});

test("a span that arrives twice is one: neither its call nor its reward counts twice", () => {
  const call = span(
    "raw_gen_ai_request",
    { "llm.x.prompt_token_ids": "[1]", "llm.x.response_token_ids": "[[2]]" },
    { sequence_id: 1, start_time: 2, end_time: 3 },
  );
  const traced = span(
    "openai.chat.completion",
    { prompt_token_ids: [1], response_token_ids: [2] },
    { sequence_id: 1, start_time: 1, end_time: 4 },
  );
  const once = [call, traced, reward(0.5, 2)];
  const twice = [...once, ...structuredClone(once)];
  for (const adapt of [adaptProxySpans, adaptTracerSpans]) {
    expect(adapt(twice)).toEqual(adapt(once));
    expect(adapt(twice)).toMatchObject({ triplets: [{ reward: 0.5 }], dropped: [], unassignedRewards: [] });
  }
});
