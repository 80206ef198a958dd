import { expect, test } from "bun:test";
import fc from "fast-check";
import { maskAnswer, maskChunk } from "../../src/chat/answer-edits.ts";
import type { JsonObject } from "../../src/protocol/types.ts";

const hidden = { modelName: "agent-model", hideTokenIds: true, hideUsage: true };
const ids = fc.option(fc.array(fc.nat()));
const choice = fc.record(
  {
    index: fc.nat(),
    delta: fc.jsonValue(),
    token_ids: ids,
    prompt_token_ids: ids,
    finish_reason: fc.constant("stop"),
  },
  { requiredKeys: [] },
);
const answer = fc.record(
  {
    id: fc.string(),
    model: fc.constant("models/version_0"),
    choices: fc.oneof(fc.array(fc.oneof(choice, fc.jsonValue())), fc.jsonValue()),
    prompt_token_ids: ids,
    usage: fc.option(fc.dictionary(fc.string(), fc.nat())),
    extra: fc.jsonValue(),
  },
  { requiredKeys: ["id"] },
);

/** vLLM writes null where ids were not asked for. */
function withoutIds(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const isIds = (key: string, item: unknown) => key.endsWith("token_ids") && Array.isArray(item);
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, isIds(key, item) ? null : item]),
  );
}

test("what was added is gone, all else is as it came, whatever the answer looks like", () => {
  fc.assert(
    fc.property(answer, fc.constantFrom(undefined, 2), (value, indent) => {
      const text = JSON.stringify(value, null, indent);
      const body = JSON.parse(text) as JsonObject;
      const expected = withoutIds(body) as JsonObject;
      delete expected.usage;
      if (expected.model !== undefined) expected.model = "agent-model";
      if (Array.isArray(expected.choices)) expected.choices = expected.choices.map(withoutIds);
      expect(JSON.parse(maskAnswer(text, body, hidden))).toEqual(expected);
    }),
  );
});

test("ids go and nothing else does, also where a text or another member is called like them", () => {
  const lookalikes = fc.constantFrom('"token_ids":[1]', "token_ids", '\\"prompt_token_ids\\":[2]');
  const inner = fc.oneof(lookalikes, fc.record({ token_ids: ids }), fc.record({ a: lookalikes }));
  const likeVllm = fc.record(
    {
      prompt_token_ids: ids,
      choices: fc.array(
        fc.record({ token_ids: ids, prompt_token_ids: ids, delta: inner }, { requiredKeys: [] }),
      ),
      token_ids: ids,
      note: inner,
    },
    { requiredKeys: ["choices"] },
  );
  const spaced = (text: string) => text.replace('"token_ids":', '"token_ids" : ');
  fc.assert(
    fc.property(likeVllm, fc.boolean(), (value, isSpaced) => {
      const text = isSpaced ? spaced(JSON.stringify(value)) : JSON.stringify(value);
      const body = JSON.parse(text) as JsonObject;
      const expected = withoutIds(body) as JsonObject;
      expected.choices = (expected.choices as unknown[]).map(withoutIds);
      expect(JSON.parse(maskAnswer(text, body, { hideTokenIds: true, hideUsage: false }))).toEqual(expected);
    }),
    { numRuns: 2_000 },
  );
});

test("an agent that asked for everything gets the same text", () => {
  const open = { modelName: "models/version_0", hideTokenIds: false, hideUsage: false };
  fc.assert(
    fc.property(answer, (value) => {
      const text = JSON.stringify(value);
      expect(maskChunk(text, JSON.parse(text) as JsonObject, open)).toBe(text);
    }),
  );
});

test.each<[string, object, boolean]>([
  ["usage alone", { choices: [], usage: { total_tokens: 1 } }, true],
  ["no choices and no usage", { choices: [], prompt_filter: 1 }, false],
  [
    "an empty delta that carries ids",
    { choices: [{ delta: {}, finish_reason: null, token_ids: [1] }] },
    true,
  ],
  [
    "an empty delta with log-probabilities",
    { choices: [{ delta: {}, logprobs: { content: [] }, finish_reason: null, token_ids: [1] }] },
    false,
  ],
  ["an empty delta without ids", { choices: [{ delta: {}, finish_reason: null }] }, false],
  ["the end", { choices: [{ delta: {}, finish_reason: "stop", token_ids: [1] }] }, false],
  ["the role", { choices: [{ delta: { role: "assistant" }, finish_reason: null, token_ids: [] }] }, false],
  ["an empty text", { choices: [{ delta: { content: "" }, finish_reason: null, token_ids: [1] }] }, false],
])("a chunk of %s", (_, chunk, gone) => {
  expect(maskChunk(JSON.stringify(chunk), chunk as JsonObject, hidden) === null).toBe(gone);
});
