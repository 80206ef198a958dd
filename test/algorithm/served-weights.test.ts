import { expect, test } from "bun:test";
import {
  acceptedDifference,
  assertNewWeights,
  differenceToServed,
} from "../../src/algorithm/served-weights.ts";

const probes = [
  { ids: [1, 2, 3], before: [-1, -1], after: [-0.5, -0.5] },
  { ids: [4, 5], before: [-2], after: [-3] },
];

test("the difference is a mean over all tokens of all probes", async () => {
  const served = (ids: number[]) => Promise.resolve(ids.length === 3 ? [-0.5, -0.8] : [-3]);
  const { to_new, to_old } = await differenceToServed(probes, served);
  expect(to_new).toBeCloseTo(0.1);
  expect(to_old).toBeCloseTo((0.5 + 0.2 + 1) / 3);
});

const served: [string, number, number, number, boolean][] = [
  ["the new weights", 0.002, 0.03, 0.01, true],
  ["the old weights", 0.03, 0.002, 0.01, false],
  ["other weights", 0.02, 0.03, 0.01, false],
  ["the new weights with a GPU's rounding", 0.03, 0.05, 0.05, true],
  ["the old weights within a GPU's rounding", 0.03, 0.02, 0.05, false],
  ["the new weights after a large change", 0.15, 0.8, 0.1, true],
  ["other weights after a large change", 0.3, 0.8, 0.1, false],
  ["no number", Number.NaN, Number.NaN, 0.1, false],
];

for (const [what, to_new, to_old, accepted, good] of served) {
  test(`${what} are ${good ? "accepted" : "refused"}`, () => {
    const judge = () => assertNewWeights({ to_new, to_old }, accepted);
    if (good) judge();
    else expect(judge).toThrow("does not serve the new weights");
  });
}

test("the fewer bits, the more may differ", () => {
  const limits = [
    acceptedDifference("cpu"),
    acceptedDifference("cuda", "none"),
    acceptedDifference("cuda", "bitsandbytes"),
  ];
  expect(limits).toEqual([0.01, 0.1, 0.15]);
});
