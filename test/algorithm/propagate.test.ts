import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Triplet } from "../../src/adapter/triplet.ts";
import { propagateRewards } from "../../src/algorithm/propagate.ts";
import { sampleTriplet } from "../helpers/sample-triplet.ts";

function rewards(triplets: Triplet[], propagation: "filter-first" | "propagate-first") {
  const { calls } = propagateRewards(triplets, propagation);
  return calls.map(({ triplet, reward }) => [triplet.metadata.sequence_id, reward]);
}

const calls = (given: (number | null)[], withoutIds: number[] = []) =>
  given.map((reward, index) =>
    sampleTriplet({ reward, sequence_id: index + 1, exact: !withoutIds.includes(index + 1) }),
  );

describe("a reward flows back until an earlier reward takes over", () => {
  test.each(["filter-first", "propagate-first"] as const)("%s, every call with ids", (propagation) => {
    expect(rewards(calls([null, 0.2, null, 1, null]), propagation)).toEqual([
      [1, 0.2],
      [2, 0.2],
      [3, 1],
      [4, 1],
    ]);
    expect(rewards(calls([null, 0, null]), propagation)).toEqual([
      [1, 0],
      [2, 0],
    ]);
    expect(rewards(calls([null, null]), propagation)).toEqual([]);
    expect(rewards([], propagation)).toEqual([]);
  });
});

// T55
test("the reward of a call without ids is lost in the recipe, and flows on by default", () => {
  const triplets = calls([null, 0.2, null, 1], [4]);
  expect(rewards(triplets, "filter-first")).toEqual([
    [1, 0.2],
    [2, 0.2],
  ]);
  expect(rewards(triplets, "propagate-first")).toEqual([
    [1, 0.2],
    [2, 0.2],
    [3, 1],
  ]);
});

test("each call left out has a reason", () => {
  const { dropped } = propagateRewards(calls([1, null, null], [1, 3]), "propagate-first");
  expect(dropped.map(({ triplet, reason }) => [triplet.metadata.sequence_id, reason])).toEqual([
    [1, "no_usage"],
    [2, "no_reward"],
    [3, "no_usage"],
  ]);
});

test("order means time, and no call is lost or changed", () => {
  const call = fc.record({ reward: fc.option(fc.integer()), exact: fc.boolean() });
  fc.assert(
    fc.property(fc.array(call), fc.constantFrom("filter-first", "propagate-first"), (given, propagation) => {
      const triplets = given.map((item, index) => sampleTriplet({ ...item, sequence_id: index + 1 }));
      const result = propagateRewards(triplets.toReversed(), propagation);
      expect(result).toEqual(propagateRewards(triplets, propagation));
      const all = [...result.calls, ...result.dropped].map(({ triplet }) => triplet);
      expect(new Set(all)).toEqual(new Set(triplets));
      expect(all).toHaveLength(triplets.length);
      for (const { triplet, reward } of result.calls) {
        const counted =
          propagation === "propagate-first" ? triplets : triplets.filter(({ metadata }) => metadata.exact);
        const next = counted.find(
          (item) => item.metadata.sequence_id >= triplet.metadata.sequence_id && item.reward !== null,
        );
        expect(reward).toBe(next?.reward ?? NaN);
      }
    }),
  );
});
