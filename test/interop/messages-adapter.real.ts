import { beforeAll, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { adaptMessages } from "../../src/adapter/messages-adapter.ts";
import type { Attributes, Span } from "../../src/protocol/types.ts";
import { makeSpan } from "../helpers/spans.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";
import { makeInteropPython, runPython } from "./python.ts";

/**
 * Our messages adapter against that of agentlightning 0.3.0, on what both can read: each call written once, by one
 * tracer, and whole. Run with `bun test ./test/interop/messages-adapter.real.ts`.
 */
const minute = 60_000;
beforeAll(() => makeInteropPython(), 10 * minute);

const text = fc
  .string({ unit: "grapheme", maxLength: 12 })
  .filter((words) => !words.trimStart().startsWith("["));
const name = fc.constantFrom("calculate", "search");
const toolCall = fc.record({
  id: fc.constantFrom("t1", "t2"),
  name,
  arguments: fc.constantFrom("{}", '{"a": 1}'),
});
const message = fc.oneof(
  fc.record({ role: fc.constantFrom("system", "user", "assistant"), content: text }),
  fc.record({ role: fc.constant("tool"), content: text, tool_call_id: fc.constantFrom("t1", "t2") }),
  fc.record({ role: fc.constant("assistant"), calls: fc.array(toolCall, { minLength: 1, maxLength: 2 }) }),
);
const call = fc.record({
  prompt: fc.array(message, { minLength: 1, maxLength: 5 }),
  answer: fc.oneof(
    text.filter((words) => words !== ""),
    fc.array(toolCall, { minLength: 1, maxLength: 2 }),
  ),
  tools: fc.array(fc.record({ name, parameters: fc.constantFrom('{"type": "object"}', "{}") }), {
    maxLength: 2,
  }),
});

type Plan = typeof call extends fc.Arbitrary<infer Value> ? Value : never;

function spansOf({ prompt, answer, tools }: Plan): Span[] {
  const attributes: Attributes = { "gen_ai.completion.0.role": "assistant" };
  for (const [index, item] of prompt.entries()) {
    const { calls = [], ...members } = item as { calls?: { [key: string]: string }[] };
    const prefix = `gen_ai.prompt.${index}`;
    for (const [key, value] of Object.entries(members)) attributes[`${prefix}.${key}`] = value as string;
    for (const [number, given] of calls.entries()) {
      for (const [key, value] of Object.entries(given))
        attributes[`${prefix}.tool_calls.${number}.${key}`] = value;
    }
  }
  for (const [index, tool] of tools.entries()) {
    attributes[`gen_ai.request.functions.${index}.name`] = tool.name;
    attributes[`gen_ai.request.functions.${index}.parameters`] = tool.parameters;
  }
  const calls = typeof answer === "string" ? [] : answer;
  if (typeof answer === "string") attributes["gen_ai.completion.0.content"] = answer;
  const own = makeSpan("ro-1", "at-1", "openai.chat.completion", attributes);
  const below = calls.map((given) =>
    makeSpan(
      "ro-1",
      "at-1",
      `tool_call.${given.name}`,
      {
        "tool.call.id": given.id,
        "tool.call.type": "function",
        "tool.name": given.name,
        "tool.parameters": given.arguments,
      },
      { parent_id: own.span_id },
    ),
  );
  return [own, ...below];
}

test(
  "make the same conversations of the same spans",
  async () => {
    const sample = fc.sample(fc.array(call, { maxLength: 3 }), { numRuns: 1_000, seed: 7 });
    const cases = sample.map((plans) => plans.flatMap(spansOf));
    const file = join(temporaryFolder(), "cases.jsonl");
    writeFileSync(file, cases.map((spans) => JSON.stringify(spans)).join("\n"));
    const theirs = (await runPython("messages.py", [file])).split("\n").filter(Boolean);
    expect(theirs.length).toBe(cases.length);
    for (const [index, spans] of cases.entries()) {
      const { calls, dropped } = adaptMessages(spans);
      expect(dropped).toEqual([]);
      expect({ spans, made: calls.map(({ messages, tools }) => ({ messages, tools })) }).toEqual({
        spans,
        made: JSON.parse(theirs[index] as string),
      });
    }
  },
  3 * minute,
);
