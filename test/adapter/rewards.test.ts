import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { finalReward, rewardDimensions, rewardOf } from "../../src/adapter/rewards.ts";
import { rewardAttributes } from "../../src/protocol/reward-attributes.ts";
import type { Attributes } from "../../src/protocol/types.ts";

const span = (attributes: object, name = "agentlightning.annotation") => ({
  name,
  attributes: attributes as Attributes,
});

// 3.4, T35
describe("writing", () => {
  test.each([
    [1, undefined, { "0.name": "primary", "0.value": 1 }],
    [true, undefined, { "0.name": "primary", "0.value": 1 }],
    [0, undefined, { "0.name": "primary", "0.value": 0 }],
    [
      { b: 1, a: true, c: 0.25 },
      "a",
      { "0.name": "a", "0.value": 1, "1.name": "b", "1.value": 1, "2.name": "c", "2.value": 0.25 },
    ],
  ])("%j", (value, primary, expected) => {
    const prefixed = Object.entries(expected).map(([key, item]) => [`agentlightning.reward.${key}`, item]);
    expect(rewardAttributes(value, primary)).toEqual(Object.fromEntries(prefixed) as Attributes);
  });

  test.each([NaN, Infinity, -Infinity, "1", null, undefined, { a: 1 }, { a: "x" }])(
    "%p is refused",
    (value) => {
      expect(() => rewardAttributes(value as never)).toThrow(/reward/);
    },
  );

  test("a dimension that is no number is refused by name", () => {
    expect(() => rewardAttributes({ a: 1, b: NaN }, "a")).toThrow("reward: b is NaN");
    expect(() => rewardAttributes({ a: 1 }, "z")).toThrow('"z" is not one of: a');
  });

  test("what is written is read back", () => {
    const amount = fc.double({ noNaN: true, noDefaultInfinity: true });
    fc.assert(
      fc.property(fc.dictionary(fc.string(), amount, { minKeys: 1 }), (dimensions) => {
        const primary = Object.keys(dimensions).at(-1) ?? "";
        const written = span(rewardAttributes(dimensions, primary));
        expect(rewardOf(written)).toBe(dimensions[primary] ?? NaN);
        expect(Object.fromEntries(rewardDimensions(written).map(({ name, value }) => [name, value]))).toEqual(
          dimensions,
        );
      }),
    );
  });
});

// 3.4, T42, T43, T44, T61
describe("reading", () => {
  test.each([
    [
      "the first dimension, whatever the span's name",
      span({ "agentlightning.reward.0.value": 0 }, "anything"),
      0,
    ],
    ["a name is not needed", span({ "agentlightning.reward.0.value": 0.5 }), 0.5],
    ["a key that only begins alike", span({ "agentlightning.rewards": 1 }), null],
    ["a key equal to the prefix", span({ "agentlightning.reward": 1 }), null],
    ["an index that does not start at 0", span({ "agentlightning.reward.1.value": 1 }), null],
    ["an index that is not canonical", span({ "agentlightning.reward.00.value": 1 }), null],
    ["a value that is text", span({ "agentlightning.reward.0.value": "1" }), null],
    ["a value that is not finite", span({ "agentlightning.reward.0.value": NaN }), null],
    ["AgentOps, as a map", span({ "agentops.task.output": { type: "reward", value: 0.25 } }, "x"), 0.25],
    ["AgentOps, as JSON", span({ "agentops.entity.output": '{"type":"reward","value":2}' }, "x"), 2],
    [
      "AgentOps, as a Python literal",
      span({ "agentops.entity.output": "{'type': 'reward', 'value': 2.0}" }, "x"),
      2,
    ],
    [
      "an empty AgentOps reward ends the search",
      span({ "agentops.task.output": '{"type":"reward","value":null}', reward: 1 }),
      null,
    ],
    ["AgentOps output that is no map", span({ "agentops.task.output": "[1]" }, "x"), null],
    [
      "AgentOps output of another type",
      span({ "agentops.task.output": '{"type":"text","value":1}' }, "x"),
      null,
    ],
    ["the old format", span({ reward: 0.5 }), 0.5],
    ["the old format under its old name", span({ reward: 0 }, "agentlightning.reward"), 0],
    ["the old attribute on another span", span({ reward: 1 }, "openai.chat"), null],
    ["no reward", span({}), null],
  ])("%s", (_, rewarded, expected) => {
    expect(rewardOf(rewarded)).toBe(expected);
  });

  test("a malformed reward is reported, not thrown", () => {
    const warnings: unknown[] = [];
    const log = {
      debug() {},
      info() {},
      error() {},
      warning: (...line: unknown[]) => void warnings.push(line),
    };
    expect(rewardOf(span({ "agentlightning.rewards": 1 }), log)).toBeNull();
    expect(warnings).toHaveLength(1);
  });

  test("the final reward is the last one there is, 0 included", () => {
    const rewards = [0.5, 0].map((value) => span(rewardAttributes(value)));
    expect(finalReward([...rewards, span({})])).toBe(0);
    expect(finalReward([])).toBeNull();
  });
});
