import { expect, test } from "bun:test";
import fc from "fast-check";
import { estimateMean } from "../../src/algorithm/interval.ts";

test("Wilson's interval of 0/1 rewards agrees with published values", () => {
  // Newcombe 1998, table I: 81 of 263.
  const rewards = [...Array<number>(81).fill(1), ...Array<number>(182).fill(0)];
  const { low, high } = estimateMean(rewards);
  expect(low).toBeCloseTo(0.2553, 4);
  expect(high).toBeCloseTo(0.3662, 4);
});

test("all zeros or all ones still leave doubt", () => {
  expect(estimateMean([0, 0, 0, 0]).high).toBeGreaterThan(0.3);
  expect(estimateMean([1, 1, 1, 1]).low).toBeLessThan(0.7);
});

test("the interval holds the mean, and narrows with more rewards of the same kind", () => {
  fc.assert(
    fc.property(
      fc.array(fc.double({ min: -5, max: 5, noNaN: true }), { minLength: 2, maxLength: 60 }),
      (rewards) => {
        const once = estimateMean(rewards);
        expect(once.low).toBeLessThanOrEqual(once.mean + 1e-9);
        expect(once.high).toBeGreaterThanOrEqual(once.mean - 1e-9);
        const fourTimes = estimateMean([...rewards, ...rewards, ...rewards, ...rewards]);
        expect(fourTimes.high - fourTimes.low).toBeLessThanOrEqual(once.high - once.low + 1e-9);
      },
    ),
  );
});
