import { describe, expect, test } from "bun:test";
import { planRollout, sleepOf, spansOf } from "../../scripts/bench/agent-plan.ts";
import { isMet } from "../../scripts/bench/figures.ts";
import { interleave } from "../../scripts/bench/pairs.ts";
import { scenarios, sleepBoundIdeal } from "../../scripts/bench/scenarios.ts";
import { nestedAttributes, newSpanId, spanBody } from "../../scripts/bench/span-bodies.ts";
import { createRandom } from "../../src/algorithm/random.ts";
import { parseJson } from "../../src/protocol/json.ts";
import { spanSchema } from "../../src/protocol/span-schema.ts";
import { check } from "../../src/server/validation.ts";

/** Rollouts per second of the published agents on a store that costs nothing, computed before this was written. */
const computedIdeals: Record<string, number> = {
  medium: 149,
  "mid-high": 626,
  large: 3_326,
  "long queue": 849,
  "high concurrency": 1_273,
};

test.each(scenarios.filter(({ name }) => name in computedIdeals))(
  "without a store's cost, $name runs at the rate that its description allows",
  (scenario) => {
    const ideal = computedIdeals[scenario.name]!;
    expect(Math.abs(sleepBoundIdeal(scenario) / ideal - 1)).toBeLessThan(0.02);
  },
);

test("an agent of R rounds sends 3R + R/2 + 2 spans and sleeps 2R + 1 times", () => {
  const random = createRandom(5);
  const shape = { maxRounds: 6, sleepSeconds: 0.5 };
  const plans = Array.from({ length: 4_000 }, () => planRollout(random, shape));
  const mean = (values: number[]) => values.reduce((total, value) => total + value, 0) / values.length;
  const rounds = 3.5;
  expect(mean(plans.map((plan) => spansOf(plan).length))).toBeCloseTo(3.5 * rounds + 2, 0);
  expect(mean(plans.map(sleepOf))).toBeCloseTo((2 * rounds + 1) * 0.25, 1);
  for (const plan of plans) {
    const spans = spansOf(plan);
    expect(spans.filter(({ attributes }) => attributes === "task")).toHaveLength(1);
    expect(spans.at(-1)!.attributes).toHaveProperty("reward");
  }
});

test("the spans that it sends are spans", () => {
  const attributes = nestedAttributes(createRandom(9));
  const names = { rolloutId: "ro-1", attemptId: "at-1", name: "final", sequenceId: 3 };
  const span = check(spanSchema, parseJson(spanBody({ ...names, spanId: newSpanId(), attributes })), "body");
  expect(span).toMatchObject({ rollout_id: "ro-1", sequence_id: 3, attributes: JSON.parse(attributes) });
});

describe("figures", () => {
  test("both sides take turns, after one turn of each that is not counted", async () => {
    const turns: string[] = [];
    const side = (name: string) => async () => `${name}${turns.push(name)}`;
    expect(await interleave(2, side("a"), side("b"))).toEqual([
      ["a3", "b4"],
      ["a6", "b5"],
    ]);
  });

  test.each([
    [{ at: "least", value: 5 } as const, 5, true],
    [{ at: "least", value: 5 } as const, 4.9, false],
    [{ at: "most", value: 1.2 } as const, 1.3, false],
    [{ at: "exactly", value: 0 } as const, 0, true],
    [undefined, 7, null],
  ])("against %j, %d is met: %p", (target, value, met) => {
    expect(isMet({ id: "B1", name: "a figure", unit: "", value, ...(target ? { target } : {}) })).toBe(met);
  });
});
