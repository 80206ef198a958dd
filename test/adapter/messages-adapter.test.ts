import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { adaptMessages } from "../../src/adapter/messages-adapter.ts";
import type { Attributes, Span } from "../../src/protocol/types.ts";
import { makeSpan, rewardSpan } from "../helpers/spans.ts";

const span = (name: string, attributes: object, changes: Partial<Span> = {}) =>
  makeSpan("ro-1", "at-1", name, attributes as Attributes, changes);
const traced = (attributes: object, changes: Partial<Span> = {}) =>
  span("openai.chat.completion", attributes, changes);
const raw = (attributes: object, changes: Partial<Span> = {}) =>
  span(
    "raw_gen_ai_request",
    Object.fromEntries(Object.entries(attributes).map(([key, value]) => [`llm.hosted_vllm.${key}`, value])),
    changes,
  );

const conversations = (spans: Span[]): { messages: any[]; tools: any }[] =>
  adaptMessages(spans).calls.map(({ messages, tools }) => ({ messages, tools }));
const reasons = (spans: Span[]) => adaptMessages(spans).dropped.map(({ reason }) => reason);

const parameters = { type: "object", properties: { expression: { type: "string" } } };
const calculate = { name: "calculate", description: "Works out sums.", parameters };
const call = {
  id: "t1",
  type: "function",
  function: { name: "calculate", arguments: '{"expression": "12*7"}' },
};
const asked = [
  { role: "system", content: "Answer with the calculator." },
  { role: "user", content: "What is 12*7? Don't guess." },
];
const answered = { role: "assistant", content: null, tool_calls: [call] };
const functionAttributes = {
  "gen_ai.request.functions.0.name": "calculate",
  "gen_ai.request.functions.0.description": "Works out sums.",
  "gen_ai.request.functions.0.parameters": JSON.stringify(parameters),
};
const promptAttributes = {
  "gen_ai.prompt.0.role": "system",
  "gen_ai.prompt.0.content": asked[0]!.content,
  "gen_ai.prompt.1.role": "user",
  "gen_ai.prompt.1.content": asked[1]!.content,
};
const rawCall = {
  id: "C1",
  messages:
    "[{'role': 'system', 'content': 'Answer with the calculator.'}, {'role': 'user', 'content': \"What is 12*7? Don't guess.\"}]",
  tools: `[{'type': 'function', 'function': {'name': 'calculate', 'description': 'Works out sums.', 'parameters': {'type': 'object', 'properties': {'expression': {'type': 'string'}}}}}]`,
  choices:
    "[{'index': 0, 'message': {'role': 'assistant', 'content': None, 'refusal': None, 'tool_calls': [{'id': 't1', 'type': 'function', 'function': {'name': 'calculate', 'arguments': '{\"expression\": \"12*7\"}'}}], 'annotations': []}, 'finish_reason': 'tool_calls', 'token_ids': [5]}]",
};
const expected = { messages: [...asked, answered], tools: [{ type: "function", function: calculate }] };

// 4.3, T24
describe("one call is one conversation, however it was written", () => {
  test("tool calls as spans below the call's own, as tracers of the original write them", () => {
    const tool = {
      "tool.call.id": "t1",
      "tool.call.type": "function",
      "tool.name": "calculate",
      "tool.parameters": '{"expression": "12*7"}',
    };
    const completion = traced(
      {
        ...promptAttributes,
        ...functionAttributes,
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.finish_reason": "tool_calls",
      },
      { span_id: "call" },
    );
    expect(conversations([completion, span("tool_call.calculate", tool, { parent_id: "call" })])).toEqual([
      expected,
    ]);
  });

  test("the result of a tool names its call", () => {
    const spans = [
      traced({
        ...promptAttributes,
        "gen_ai.prompt.2.role": "tool",
        "gen_ai.prompt.2.content": "84",
        "gen_ai.prompt.2.tool_call_id": "t1",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": "It is 84.",
      }),
    ];
    const tool = { role: "tool", content: "84", tool_call_id: "t1" };
    const messages = [...asked, tool, { role: "assistant", content: "It is 84." }];
    expect(conversations(spans)).toEqual([{ messages, tools: null }]);
  });

  test("a verbatim span and its normalised twin, the verbatim one preferred", () => {
    const twin = span(
      "litellm_request",
      {
        "gen_ai.response.id": "C1",
        "llm.request.functions.0.name": "calculate",
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "another text",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.function_call.name": "calculate",
      },
      { sequence_id: 4 },
    );
    expect(conversations([twin, raw(rawCall, { sequence_id: 4 })])).toEqual([expected]);
  });

  test("another provider, with a point in its name", () => {
    const renamed = Object.entries(rawCall).map(([key, value]) => [`llm.my.provider.${key}`, value]);
    expect(conversations([span("raw_gen_ai_request", Object.fromEntries(renamed))])).toEqual([expected]);
  });

  test("only the normalised span, in LiteLLM's older dialect: tool calls are numbered among the completions", () => {
    const [conversation] = conversations([
      span("litellm_request", {
        ...promptAttributes,
        "llm.request.functions.0.name": "calculate",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.finish_reason": "tool_calls",
        "gen_ai.completion.0.function_call.name": "calculate",
        "gen_ai.completion.0.function_call.arguments": "{}",
        "gen_ai.completion.1.function_call.name": "calculate",
        "gen_ai.completion.1.function_call.arguments": '{"a":1}',
      }),
    ]);
    expect(conversation?.messages.at(-1)).toEqual({
      role: "assistant",
      content: null,
      tool_calls: ["{}", '{"a":1}'].map((text) => ({
        type: "function",
        function: { name: "calculate", arguments: text },
      })),
    });
    expect(conversation?.tools).toEqual([
      { type: "function", function: { name: "calculate", description: "" } },
    ]);
  });

  test("LiteLLM's later dialect, and OpenTelemetry's conventions: messages with parts", () => {
    const input = [
      { role: "user", parts: [{ type: "text", content: asked[1]!.content }] },
      {
        role: "assistant",
        parts: [
          { type: "reasoning", content: "Hm" },
          { type: "tool_call", id: "t1", name: "calculate", arguments: { expression: "12*7" } },
        ],
      },
      { role: "tool", parts: [{ type: "tool_call_response", id: "t1", response: 84 }] },
    ];
    const output = [{ role: "assistant", parts: [{ type: "text", content: "84" }], finish_reason: "stop" }];
    const attributes = {
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "openai",
      "gen_ai.request.model": "m",
      "gen_ai.response.id": "C1",
      "gen_ai.usage.input_tokens": 8,
      "gen_ai.usage.output_tokens": 5,
    };
    const words = {
      "gen_ai.system_instructions": JSON.stringify([{ type: "text", content: asked[0]!.content }]),
      "gen_ai.input.messages": JSON.stringify(input),
      "gen_ai.output.messages": JSON.stringify(output),
      "gen_ai.tool.definitions": JSON.stringify([{ type: "function", ...calculate }]),
    };
    const calls = [{ ...call, function: { ...call.function, arguments: '{"expression":"12*7"}' } }];
    const messages = [
      ...asked,
      { role: "assistant", content: null, reasoning_content: "Hm", tool_calls: calls },
      { role: "tool", content: "84", tool_call_id: "t1" },
      { role: "assistant", content: "84" },
    ];
    const details = {
      name: "gen_ai.client.inference.operation.details",
      attributes: words,
      timestamp: 1,
    };
    for (const written of [
      span("chat m", { ...attributes, ...words }),
      span("litellm_request", { ...attributes, ...words }),
      span("chat m", attributes, { events: [details] }),
    ]) {
      const { calls: found } = adaptMessages([written]);
      expect(found).toMatchObject([
        { messages, tools: expected.tools, finish_reason: "stop", model: "m", response_id: "C1" },
      ]);
    }
  });

  test("LiteLLM's later dialect keeps tool calls beside the parts", () => {
    const input = [
      { role: "user", parts: [{ type: "text", content: "Hi" }] },
      { role: "assistant", parts: [], tool_calls: [call] },
      { role: "tool", parts: [{ type: "text", content: "84" }], tool_call_id: "t1" },
    ];
    const output = [{ role: "assistant", parts: [{ type: "text", content: "84" }] }];
    const [conversation] = conversations([
      span("litellm_request", {
        "gen_ai.input.messages": JSON.stringify(input),
        "gen_ai.output.messages": JSON.stringify(output),
      }),
    ]);
    expect(conversation?.messages).toEqual([
      { role: "user", content: "Hi" },
      answered,
      { role: "tool", content: "84", tool_call_id: "t1" },
      { role: "assistant", content: "84" },
    ]);
  });

  test("OpenInference: one attribute for each member", () => {
    const message = "llm.input_messages";
    const toolCall = "llm.output_messages.0.message.tool_calls.0.tool_call";
    expect(
      conversations([
        span("ChatCompletion", {
          "openinference.span.kind": "LLM",
          "llm.model_name": "m",
          [`${message}.0.message.role`]: "system",
          [`${message}.0.message.content`]: asked[0]!.content,
          [`${message}.1.message.role`]: "user",
          [`${message}.1.message.contents.0.message_content.type`]: "text",
          [`${message}.1.message.contents.0.message_content.text`]: "See",
          [`${message}.1.message.contents.1.message_content.type`]: "image",
          [`${message}.1.message.contents.1.message_content.image.image.url`]: "data:,x",
          "llm.output_messages.0.message.role": "assistant",
          [`${toolCall}.id`]: "t1",
          [`${toolCall}.function.name`]: "calculate",
          [`${toolCall}.function.arguments`]: '{"expression": "12*7"}',
          "llm.tools.0.tool.json_schema": JSON.stringify({ type: "function", function: calculate }),
        }),
      ]),
    ).toEqual([
      {
        messages: [
          asked[0]!,
          {
            role: "user",
            content: [
              { type: "text", text: "See" },
              { type: "image_url", image_url: { url: "data:,x" } },
            ],
          },
          answered,
        ],
        tools: expected.tools,
      },
    ]);
  });

  test("the client's own function as an operation", () => {
    const operation = "agentlightning.operation";
    expect(
      conversations([
        traced({
          [`${operation}.input.messages`]: JSON.stringify(asked),
          [`${operation}.output.id`]: "C1",
          [`${operation}.output.choices.0.message.role`]: "assistant",
          [`${operation}.output.choices.0.message.content`]: "84",
        }),
      ]),
    ).toEqual([{ messages: [...asked, { role: "assistant", content: "84" }], tools: null }]);
  });
});

// T56 and T26 of the reference.
describe("what the original loses or repeats", () => {
  test("text beside tool calls is kept, in the prompt as in the answer", () => {
    const beside = (prefix: string) => ({
      [`${prefix}.role`]: "assistant",
      [`${prefix}.content`]: "Let me see.",
      [`${prefix}.tool_calls.0.id`]: "t1",
      [`${prefix}.tool_calls.0.name`]: "calculate",
      [`${prefix}.tool_calls.0.arguments`]: call.function.arguments,
    });
    const spans = [
      traced({
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "Hi",
        ...beside("gen_ai.prompt.1"),
        ...beside("gen_ai.completion.0"),
      }),
    ];
    const said = { ...answered, content: "Let me see." };
    expect(conversations(spans)[0]?.messages).toEqual([{ role: "user", content: "Hi" }, said, said]);
  });

  test("content with parts that was written as text is parts again, and other text stays text", () => {
    const parts = [
      { type: "text", text: "See" },
      { type: "image_url", image_url: { url: "data:,x" } },
    ];
    const contents = (content: string) =>
      conversations([
        traced({
          "gen_ai.prompt.0.role": "user",
          "gen_ai.prompt.0.content": content,
          "gen_ai.completion.0.role": "assistant",
          "gen_ai.completion.0.content": "ok",
        }),
      ])[0]?.messages[0]?.content;
    expect(contents(JSON.stringify(parts))).toEqual(parts);
    expect(contents("[{'type': 'text', 'text': 'See'}]")).toEqual([{ type: "text", text: "See" }]);
    for (const text of ['[{"a":1}]', "[1, 2]", "[{", ""]) expect(contents(text)).toBe(text);
  });

  test("of several choices, the first; tool calls that may be of any of them make no conversation", () => {
    const two = {
      ...promptAttributes,
      "gen_ai.completion.0.role": "assistant",
      "gen_ai.completion.0.content": "one",
      "gen_ai.completion.1.role": "assistant",
      "gen_ai.completion.1.content": "two",
    };
    expect(conversations([traced(two)])[0]?.messages.at(-1)).toEqual({ role: "assistant", content: "one" });
    const below = span("tool", { "tool.name": "calculate" }, { parent_id: "two" });
    expect(reasons([traced(two, { span_id: "two" }), below])).toEqual(["tool_calls_of_several_choices"]);
  });

  test("a tool call without an id and a function without parameters are written without", () => {
    const spans = [
      traced(
        {
          ...promptAttributes,
          "gen_ai.request.functions.0.name": "f",
          "gen_ai.completion.0.role": "assistant",
        },
        { span_id: "outer" },
      ),
      span("tool", { "tool.name": "f" }, { parent_id: "outer" }),
    ];
    expect(conversations(spans)[0]).toEqual({
      messages: [
        ...asked,
        {
          role: "assistant",
          content: null,
          tool_calls: [{ type: "function", function: { name: "f", arguments: "" } }],
        },
      ],
      tools: [{ type: "function", function: { name: "f", description: "" } }],
    });
  });

  test("a call that several tracers and a proxy saw is one", () => {
    const named = { "gen_ai.response.id": "C1", "gen_ai.operation.name": "chat", ...promptAttributes };
    const spans = [
      traced(named, { span_id: "outer", start_time: 1, end_time: 9 }),
      span("chat m", { "gen_ai.operation.name": "chat" }, { parent_id: "outer", start_time: 2, end_time: 8 }),
      raw(rawCall, { start_time: 3, end_time: 7 }),
      traced({ ...promptAttributes }, { start_time: 2.5, end_time: 7.5, parent_id: null }),
    ];
    expect(conversations(spans)).toEqual([expected]);
    expect(reasons(spans)).toEqual(["no_answer"]);
    expect(reasons(spans.slice(0, 3))).toEqual([]);
    // Without an id and without another tracer's span, the one that enclosed the proxy's in time.
    expect(conversations([spans[3]!, spans[2]!])).toEqual([expected]);
  });

  test("spans that are about models, but are no call, make nothing", () => {
    const spans = [
      span("invoke_agent", { "gen_ai.operation.name": "invoke_agent", "gen_ai.request.model": "m" }),
      span("embeddings m", { "gen_ai.operation.name": "embeddings", "gen_ai.request.model": "m" }),
      span("Received Proxy Server Request", { "gen_ai.response.id": "C1" }),
    ];
    expect(adaptMessages(spans)).toEqual({ calls: [], dropped: [], unassignedRewards: [] });
  });
});

describe("a call that makes no conversation says why", () => {
  const failed = { status: { status_code: "ERROR" as const, description: "500" } };
  const whole = {
    ...promptAttributes,
    "gen_ai.completion.0.role": "assistant",
    "gen_ai.completion.0.content": "84",
  };
  test.each<[string, Span[]]>([
    ["failed", [traced(whole, failed)]],
    ["aborted_by_client", [traced({ ...whole, "agl.call.aborted_by_client": true })]],
    ["stale", [raw(rawCall), traced({ "gen_ai.response.id": "C1", "agl.call.stale": true })]],
    ["no_messages", [traced({ "gen_ai.response.id": "C1" })]],
    ["no_answer", [traced(promptAttributes)]],
    ["message_without_role", [traced({ ...whole, "gen_ai.prompt.2.content": "?" })]],
    ["not_a_chat", [span("text_completion m", { ...whole, "gen_ai.operation.name": "text_completion" })]],
    ["not_a_chat", [raw({ prompt: "Tell", choices: "[{'text': ' me'}]" })]],
    [
      "unknown_content",
      [raw({ ...rawCall, messages: "[{'role': 'user', 'content': [{'type': 'tool_result'}]}]" })],
    ],
    [
      "in_reward",
      [
        span(
          "agentlightning.operation",
          { "agentlightning.operation.name": "agentlightning.reward" },
          { span_id: "judge" },
        ),
        span("step", {}, { span_id: "step", parent_id: "judge" }),
        traced(whole, { parent_id: "step" }),
      ],
    ],
  ])("%s", (reason, spans) => {
    expect(conversations(spans)).toEqual([]);
    expect(reasons(spans)).toEqual([reason]);
  });

  test("duplicate: a response that was recorded again", () => {
    const spans = [raw(rawCall, { sequence_id: 1 }), raw(rawCall, { sequence_id: 2 })];
    expect(adaptMessages(spans).dropped).toEqual([
      { sequence_id: 2, response_id: "C1", reason: "duplicate" },
    ]);
  });

  test("a failed try beside the answer takes nothing from it", () => {
    const spans = [
      span("litellm_request", {}, { ...failed, sequence_id: 1 }),
      raw(rawCall, { sequence_id: 1 }),
    ];
    expect(conversations(spans)).toEqual([expected]);
  });
});

test("calls have their own reward, a call without words takes one, too, and inexact ids do not matter", () => {
  const at = (sequence_id: number) => ({ sequence_id });
  const spans = [
    raw({ ...rawCall, id: "A" }, at(1)),
    raw({ id: "B" }, at(2)),
    { ...rewardSpan("ro-1", "at-1", 0.5), sequence_id: 3 },
    { ...rewardSpan("ro-1", "at-1", 1), sequence_id: 4 },
    { ...rewardSpan("ro-1", "at-1", 2), sequence_id: 5 },
  ];
  expect(adaptMessages(spans)).toMatchObject({
    calls: [{ response_id: "A", reward: 1 }],
    dropped: [{ response_id: "B", reason: "no_messages" }],
    unassignedRewards: [{ sequence_id: 5, value: 2 }],
  });
});

test("no span makes reading throw, each call is a conversation or dropped, and their order makes no difference", () => {
  const key = fc.oneof(
    fc.constantFrom(
      "gen_ai.response.id",
      "gen_ai.prompt.0.role",
      "gen_ai.prompt.0.content",
      "gen_ai.prompt.1",
      "gen_ai.prompt",
      "gen_ai.completion.0.role",
      "gen_ai.completion.0.tool_calls.0.name",
      "gen_ai.completion.0.function_call",
      "gen_ai.input.messages",
      "gen_ai.output.messages",
      "gen_ai.system_instructions",
      "gen_ai.tool.definitions",
      "gen_ai.request.functions.0",
      "llm.input_messages.0.message",
      "llm.input_messages.0.message.contents.0",
      "llm.output_messages.0.message.role",
      "llm.tools.0.tool.json_schema",
      "llm.x.messages",
      "llm.x.choices",
      "llm.x.tools",
      "agentlightning.operation.input.messages",
      "agentlightning.operation.output.choices",
      "tool.name",
    ),
    fc.string(),
  );
  const odd = fc.constantFrom(
    "[]",
    "[{}]",
    "[None]",
    "[[1]]",
    '[{"role":1,"parts":[null,{"type":2}]}]',
    "{'a': 1}",
  );
  const value = fc.oneof(odd, fc.string(), fc.jsonValue());
  const name = fc.constantFrom(
    "raw_gen_ai_request",
    "litellm_request",
    "openai.chat.completion",
    "chat m",
    "x",
  );
  const id = fc.constantFrom("a", "b", "c", "");
  const time = fc.option(fc.nat(5));
  const rows = fc.array(
    fc.tuple(name, fc.dictionary(key, value), id, fc.option(id), time, time, fc.boolean()),
    { maxLength: 8 },
  );
  fc.assert(
    fc.property(rows, fc.func(fc.nat()), (given, place) => {
      const spans = given.map(
        ([spanName, attributes, span_id, parent_id, start_time, end_time, fails], index) =>
          span(spanName, attributes, {
            span_id: `${span_id}${index}`,
            parent_id,
            start_time,
            end_time,
            sequence_id: index + 1,
            status: { status_code: fails ? "ERROR" : "OK", description: null },
          }),
      );
      const adapted = adaptMessages(spans);
      const shuffled = spans.toSorted((one, other) => place(one.span_id) - place(other.span_id));
      expect(adaptMessages(shuffled)).toEqual(adapted);
      for (const { messages } of adapted.calls) {
        expect(messages.length).toBeGreaterThan(1);
        for (const { role, content } of messages) {
          expect(role).not.toBe("");
          expect(content === null || typeof content === "string" || Array.isArray(content)).toBe(true);
        }
      }
    }),
    { numRuns: 500 },
  );
});

test("twice the calls are twice the looks at spans, not four times: each call looked at all of them once", () => {
  const looksFor = (count: number) => {
    let looks = 0;
    const spans = Array.from({ length: count }, (_, index) => {
      const attributes = {
        "gen_ai.response.id": `r${index}`,
        ...promptAttributes,
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": "84",
      };
      const one = traced(attributes, { span_id: `s${index}`, sequence_id: index + 1 });
      return Object.defineProperty(one, "parent_id", { get: () => (looks++, null) });
    });
    expect(adaptMessages(spans).calls).toHaveLength(count);
    return looks;
  };
  expect(looksFor(200)).toBe(2 * looksFor(100));
});
