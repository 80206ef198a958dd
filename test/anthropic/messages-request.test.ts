import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { chatRequestOf } from "../../src/anthropic/messages-request.ts";
import { parseJson, stringifyJson } from "../../src/protocol/json.ts";
import type { JsonObject } from "../../src/protocol/types.ts";

const base = { max_tokens: 64, messages: [{ role: "user", content: "Hi" }] };
const tool = { name: "add", description: "Adds", input_schema: { properties: { a: { type: "number" } } } };

describe("a request as the chat completion that vLLM makes of it", () => {
  test.each<[string, JsonObject, JsonObject]>([
    ["limits", {}, { max_tokens: 64, max_completion_tokens: 64, tool_choice: null }],
    ["sampling", { temperature: 0, top_p: 0.5, top_k: 3 }, { temperature: 0, top_p: 0.5, top_k: 3 }],
    ["values that are null", { temperature: null, system: null, tools: null }, { tool_choice: null }],
    ["stop sequences", { stop_sequences: ["x"] }, { stop: ["x"] }],
    [
      "streaming",
      { stream: true },
      { stream: true, stream_options: { include_usage: true, continuous_usage_stats: true } },
    ],
    [
      "a schema",
      { output_config: { format: { type: "json_schema", schema: { type: "object" } } } },
      {
        response_format: {
          type: "json_schema",
          json_schema: { name: "json_schema", schema: { type: "object" } },
        },
      },
    ],
    ["effort", { output_config: { effort: "low" } }, { reasoning_effort: "low" }],
    [
      "a budget for thinking",
      { max_tokens: 4000, thinking: { type: "enabled", budget_tokens: 2000 } },
      { thinking_token_budget: 2000 },
    ],
    [
      "tools",
      { tools: [tool] },
      {
        tool_choice: "auto",
        tools: [
          {
            type: "function",
            function: {
              name: "add",
              description: "Adds",
              parameters: { properties: { a: { type: "number" } }, type: "object" },
            },
          },
        ],
      },
    ],
    [
      "a tool that must be called",
      { tools: [tool], tool_choice: { type: "tool", name: "add", disable_parallel_tool_use: true } },
      { tool_choice: { type: "function", function: { name: "add" } }, parallel_tool_calls: false },
    ],
    ["any tool", { tools: [tool], tool_choice: { type: "any" } }, { tool_choice: "required" }],
  ])("%s", (_, changes, expected) => {
    expect(chatRequestOf({ ...base, ...changes })).toMatchObject(expected);
  });

  test("system texts become one message, without the header that changes with every request", () => {
    const system = [
      { type: "text", text: "x-anthropic-billing-header: 1" },
      { type: "text", text: "Be " },
      { type: "text", text: "brief" },
    ];
    expect(chatRequestOf({ ...base, system })?.messages).toEqual([
      { role: "system", content: "Be brief" },
      { role: "user", content: "Hi" },
    ]);
  });

  test("a turn with tools: calls, results before the rest, pictures, thinking", () => {
    const messages = [
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "Hm", signature: "s" },
          { type: "redacted_thinking", data: "zz" },
          { type: "text", text: "Let me see" },
          { type: "tool_use", id: "t1", name: "add", input: { a: 1 } },
        ],
      },
      {
        role: "user",
        content: [
          { type: "text", text: "go on" },
          {
            type: "tool_result",
            tool_use_id: "t1",
            content: [
              { type: "text", text: "1" },
              { type: "text", text: "2" },
              { type: "image", source: { type: "base64", media_type: "image/png", data: "AA" } },
            ],
          },
          { type: "image", source: { type: "url", url: "http://x/y.png" } },
        ],
      },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "t1", content: "again" }] },
    ];
    expect(chatRequestOf({ ...base, messages })?.messages).toEqual([
      {
        role: "assistant",
        reasoning: "Hm",
        tool_calls: [{ id: "t1", type: "function", function: { name: "add", arguments: '{"a":1}' } }],
        content: "Let me see",
      },
      { role: "tool", tool_call_id: "t1", content: "1\n2" },
      { role: "user", content: [{ type: "image_url", image_url: { url: "data:image/png;base64,AA" } }] },
      {
        role: "user",
        content: [
          { type: "text", text: "go on" },
          { type: "image_url", image_url: { url: "http://x/y.png" } },
        ],
      },
      { role: "tool", tool_call_id: "t1", content: "again" },
    ]);
  });

  test("numbers keep their spelling", () => {
    const input = '{"a":1.0,"b":12345678901234567890}';
    const body = parseJson(
      `{"max_tokens":5,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":${input}}]}]}`,
    );
    expect(stringifyJson(chatRequestOf(body as JsonObject))).toContain(JSON.stringify(input));
  });
});

describe("what only the server can decide is not translated", () => {
  test.each<[string, JsonObject]>([
    ["no limit", { max_tokens: undefined }],
    ["a limit of 0", { max_tokens: 0 }],
    ["no messages", { messages: undefined }],
    ["a system message between others", { messages: [{ role: "system", content: "x" }] }],
    ["an unknown block", { messages: [{ role: "user", content: [{ type: "document" }] }] }],
    [
      "a tool reference",
      {
        messages: [
          { role: "user", content: [{ type: "tool_result", content: [{ type: "tool_reference" }] }] },
        ],
      },
    ],
    ["thinking turned off", { thinking: { type: "disabled" } }],
    ["a budget beyond the limit", { thinking: { type: "enabled", budget_tokens: 5000 } }],
    ["an effort of its own", { output_config: { effort: "max" } }],
    ["a choice without tools", { tool_choice: { type: "auto" } }],
    ["a choice of an unknown tool", { tools: [tool], tool_choice: { type: "tool", name: "no" } }],
    ["a deferred tool", { tools: [{ ...tool, defer_loading: true }] }],
    ["a stream that is no truth value", { stream: "yes" }],
  ])("%s", (_, changes) => {
    expect(chatRequestOf({ ...base, ...changes })).toBeNull();
  });

  test("whatever comes, the translation neither throws nor makes up messages", () => {
    const block = fc.record(
      {
        type: fc.constantFrom("text", "image", "tool_use", "tool_result", "thinking", "other"),
        text: fc.jsonValue(),
        source: fc.jsonValue(),
        content: fc.jsonValue(),
        input: fc.jsonValue(),
        name: fc.jsonValue(),
        id: fc.jsonValue(),
      },
      { requiredKeys: ["type"] },
    );
    const message = fc.record({
      role: fc.constantFrom("user", "assistant", "system"),
      content: fc.oneof(fc.string(), fc.array(block), fc.jsonValue()),
    });
    const request = fc.record(
      {
        max_tokens: fc.oneof(fc.nat(), fc.jsonValue()),
        messages: fc.oneof(fc.array(message), fc.jsonValue()),
        system: fc.jsonValue(),
        tools: fc.jsonValue(),
        tool_choice: fc.jsonValue(),
        thinking: fc.jsonValue(),
        output_config: fc.jsonValue(),
        stream: fc.jsonValue(),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(request, (body) => {
        const chat = chatRequestOf(body as JsonObject);
        if (chat === null) return;
        const roles = (chat.messages as JsonObject[]).map(({ role }) => role);
        expect(["system", "user", "assistant", "tool"]).toEqual(expect.arrayContaining(roles));
      }),
    );
  });
});
