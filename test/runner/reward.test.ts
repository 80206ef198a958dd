import { expect, test } from "bun:test";
import fc from "fast-check";
import { finiteReward, InvalidRewardError, rewardOf } from "../../src/runner/reward.ts";

test("every finite number is a reward as it is, and nothing else but true, false and nothing", () => {
  fc.assert(
    fc.property(fc.anything(), (value) => {
      if (typeof value === "boolean") expect(rewardOf(value)).toBe(value ? 1 : 0);
      else if (value === undefined || value === null) expect(rewardOf(value)).toBeNull();
      else if (typeof value === "number" && Number.isFinite(value)) expect(rewardOf(value)).toBe(value);
      else expect(() => rewardOf(value)).toThrow(InvalidRewardError);
    }),
  );
});

test("an intermediate reward cannot be nothing", () => {
  expect(() => finiteReward(undefined)).toThrow("a reward must be a finite number, true or false");
});
