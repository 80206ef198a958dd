import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { RolloutCalls, SelectionInput } from "../../src/algorithm/select.ts";
import { selectRows } from "../../src/algorithm/select.ts";
import type { RolloutStatus } from "../../src/protocol/enums.ts";
import { sampleTriplet } from "../helpers/sample-triplet.ts";

function rollout(id: number, reward: number | null, changes: Partial<RolloutCalls> = {}): RolloutCalls {
  const triplets = [sampleTriplet({ prompt: [id], response: [1000 + id], reward })];
  return { rollout_id: `ro-${id}`, status: "succeeded", triplets, dropped: [], ...changes };
}

function select(rollouts: RolloutCalls[], changes: Partial<SelectionInput> = {}) {
  return selectRows({ rollouts, rule: "above-mean", fraction: 0.5, maxLength: 100, seed: 0, ...changes });
}

const rewardsOf = ({ kept }: { kept: { reward: number }[] }) => kept.map(({ reward }) => reward).sort();

describe("the recipe's rule", () => {
  test.each([
    [5, 0.5, 2],
    [1, 0.5, 1],
    [3, 0.1, 1],
    [4, 1, 4],
  ])("of %d rows, fraction %d keeps %d", (count, fraction, kept) => {
    const rollouts = Array.from({ length: count }, (_, id) => rollout(id, id));
    const selection = select(rollouts, { rule: "recipe", fraction });
    const best = Array.from({ length: count }, (_, id) => id).slice(count - kept);
    expect(rewardsOf(selection)).toEqual(best);
  });

  test("failed and cancelled rollouts count, equal rewards are cut at random, and all-zero rewards still train", () => {
    const statuses: RolloutStatus[] = ["failed", "cancelled", "succeeded", "succeeded"];
    const rollouts = statuses.map((status, id) => rollout(id, 0, { status }));
    const chosen = new Set<string>();
    for (let seed = 0; seed < 30; seed += 1) {
      const selection = select(rollouts, { rule: "recipe", seed });
      expect(selection.noUpdate).toBeUndefined();
      for (const { rollout_id } of selection.provenance) chosen.add(rollout_id);
    }
    expect(chosen.size).toBe(4);
  });

  test("the reward of a call without ids is lost", () => {
    const triplets = [
      sampleTriplet({ sequence_id: 1 }),
      sampleTriplet({ sequence_id: 2, exact: false, reward: 1 }),
    ];
    const { kept, dropped, noUpdate } = select([rollout(1, null, { triplets })], { rule: "recipe" });
    expect([kept, dropped]).toEqual([[], { no_usage: 1, no_reward: 1 }]);
    expect(noUpdate).toBe("no row is left: no_reward 1, no_usage 1");
  });
});

describe("above the mean", () => {
  test("of the best half, only what is better than the mean of the round", () => {
    const selection = select([0, 0, 0, 0, 0, 1].map((reward, id) => rollout(id, reward)));
    expect(rewardsOf(selection)).toEqual([1]);
    expect(selection.dropped).toEqual({ outside_best_fraction: 3, not_above_mean: 2 });
    expect(selection.candidates).toEqual({ rows: 6, distinctResponses: 6, meanReward: 1 / 6 });
    expect(selection.noUpdate).toBeUndefined();
  });

  test("a reward that flowed back from a call without ids counts", () => {
    const triplets = [
      sampleTriplet({ sequence_id: 1 }),
      sampleTriplet({ sequence_id: 2, exact: false, reward: 1 }),
    ];
    const selection = select([rollout(1, null, { triplets }), rollout(2, 0)]);
    expect(rewardsOf(selection)).toEqual([1]);
    expect(selection.provenance).toMatchObject([{ rollout_id: "ro-1", sequence_id: 1 }]);
  });

  test.each([[[1, 1, 1]], [[0, 0]], [[0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]]])(
    "equal rewards %j change nothing",
    (rewards) => {
      const selection = select(rewards.map((reward, id) => rollout(id, reward)));
      expect(selection.kept).toEqual([]);
      expect(selection.dropped).toEqual({ rewards_all_equal: rewards.length });
      expect(selection.noUpdate).toBe(
        `nothing separates the rewards: each of the ${rewards.length} rows has ${rewards[0]}`,
      );
    },
  );

  test("only succeeded rollouts, each other left out by its reason", () => {
    const { dropped, noUpdate, rolloutsWithoutCalls } = select([
      rollout(1, 1, { status: "failed" }),
      rollout(2, 1, { status: "cancelled" }),
      rollout(3, 1, { status: "running" }),
      rollout(4, null),
      rollout(5, 1, { triplets: [] }),
      rollout(6, 1, {
        triplets: [],
        dropped: [{ sequence_id: 1, response_id: null, reason: "aborted_by_client" }],
      }),
    ]);
    expect(dropped).toEqual({
      rollout_failed: 1,
      rollout_cancelled: 1,
      rollout_unfinished: 1,
      no_reward: 1,
      aborted_by_client: 1,
    });
    expect(noUpdate).toStartWith("no row is left: rollout_failed 1");
    expect(rolloutsWithoutCalls).toEqual(["ro-5"]);
  });

  test("no calls at all", () => {
    expect(select([]).noUpdate).toBe("no row is left: there were no calls");
  });

  test("rows that are too long are counted and take no part in the mean", () => {
    const long = [sampleTriplet({ prompt: [1, 2, 3], response: [4], reward: 100 })];
    const selection = select([rollout(1, 0), rollout(2, 1), rollout(3, 100, { triplets: long })], {
      maxLength: 3,
    });
    expect(rewardsOf(selection)).toEqual([1]);
    expect(selection.dropped).toEqual({ too_long: 1, outside_best_fraction: 1 });
  });
});

const anyTriplet = fc.record({
  reward: fc.option(fc.constantFrom(0, 0.25, 1), { freq: 2 }),
  exact: fc.boolean(),
  prompt: fc.array(fc.nat(), { minLength: 1, maxLength: 6 }),
});
const anyRollouts = fc.array(
  fc.record({
    status: fc.constantFrom<RolloutStatus>("succeeded", "succeeded", "failed", "running"),
    calls: fc.array(anyTriplet, { maxLength: 4 }),
    dropped: fc.nat({ max: 2 }),
  }),
  { maxLength: 8 },
);
const anySelection = fc.record({
  rule: fc.constantFrom("recipe" as const, "above-mean" as const),
  fraction: fc.double({ min: 0.01, max: 1, noNaN: true }),
  seed: fc.nat(),
  shuffleRewards: fc.boolean(),
});

test("counts add up, kept rows are recorded calls, and a seed decides everything", () => {
  fc.assert(
    fc.property(anyRollouts, anySelection, (given, options) => {
      const rollouts = given.map(({ status, calls, dropped }, id) => ({
        rollout_id: `ro-${id}`,
        status,
        triplets: calls.map((call, index) => sampleTriplet({ ...call, sequence_id: index + 1 })),
        dropped: Array.from({ length: dropped }, () => ({
          sequence_id: 9,
          response_id: null,
          reason: "failed",
        })),
      }));
      const selection = select(rollouts, { ...options, maxLength: 5 });
      expect(select(rollouts, { ...options, maxLength: 5 })).toEqual(selection);

      const all = rollouts.reduce((sum, { triplets, dropped }) => sum + triplets.length + dropped.length, 0);
      const left = Object.values(selection.dropped).reduce((sum, amount) => sum + amount, 0);
      expect(selection.kept.length + left).toBe(all);
      expect(selection.kept.length === 0).toBe(selection.noUpdate !== undefined);

      const places = selection.provenance.map(
        ({ rollout_id, sequence_id }) => `${rollout_id} ${sequence_id}`,
      );
      expect(new Set(places).size).toBe(selection.kept.length);
      selection.kept.forEach((row, index) => {
        const { rollout_id, sequence_id } = selection.provenance[index] ?? { rollout_id: "", sequence_id: 0 };
        const source = rollouts.find((item) => item.rollout_id === rollout_id)?.triplets[sequence_id - 1];
        expect(row.input_ids).toEqual([
          ...(source?.prompt.token_ids ?? []),
          ...(source?.response.token_ids ?? []),
        ]);
      });
    }),
  );
});

test("shuffled rewards are the same rewards, between rollouts, at the places where rewards were", () => {
  const rollouts = Array.from({ length: 40 }, (_, id) => rollout(id, id));
  const shuffled = select(rollouts, { rule: "recipe", fraction: 1, shuffleRewards: true });
  expect(rewardsOf(shuffled)).toEqual(rewardsOf(select(rollouts, { rule: "recipe", fraction: 1 })));
  const moved = shuffled.kept.filter((row) => row.input_ids[0] !== row.reward);
  expect(moved.length).toBeGreaterThan(30);
  expect(
    select([rollout(1, null), rollout(2, 1), rollout(3, 0)], { shuffleRewards: true }).dropped,
  ).toMatchObject({
    no_reward: 1,
  });
});
