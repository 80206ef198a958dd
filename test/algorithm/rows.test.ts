import { expect, test } from "bun:test";
import fc from "fast-check";
import { isTooLong, makeRow } from "../../src/algorithm/rows.ts";
import { createRandom } from "../../src/algorithm/random.ts";
import { sampleTriplet } from "../helpers/sample-triplet.ts";

const ids = fc.array(fc.nat({ max: 151_645 }), { minLength: 1, maxLength: 50 });

test("a row is the recorded prompt and response, in order, with the prompt's labels ignored", () => {
  fc.assert(
    fc.property(ids, ids, fc.double({ noNaN: true }), (prompt, response, reward) => {
      const { row } = makeRow("ro-1", { triplet: sampleTriplet({ prompt, response }), reward });
      expect(row.input_ids).toEqual([...prompt, ...response]);
      expect(row.attention_mask).toEqual(Array.from({ length: row.input_ids.length }, () => 1));
      expect(row.labels.slice(0, prompt.length)).toEqual(prompt.map(() => -100));
      expect(row.labels.slice(prompt.length)).toEqual(response);
      expect(row.reward).toBe(reward);
    }),
  );
});

test("a row keeps where it came from, beside what the trainer reads", () => {
  const recorded = makeRow("ro-1", { triplet: sampleTriplet({ sequence_id: 4 }), reward: 1 });
  expect(Object.keys(recorded.row)).toEqual(["input_ids", "attention_mask", "labels", "reward"]);
  expect(recorded.provenance).toEqual({
    rollout_id: "ro-1",
    sequence_id: 4,
    response_id: "chatcmpl-4",
    checkpoint: "version_0",
  });
});

test("the limit on the length is inclusive", () => {
  const row = makeRow("ro-1", { triplet: sampleTriplet({ prompt: [1, 2], response: [3] }), reward: 1 });
  expect([isTooLong(row, 3), isTooLong(row, 2)]).toEqual([false, true]);
});

test("a seed gives the same numbers everywhere, and other seeds give others", () => {
  const numbers = (seed: number) => {
    const random = createRandom(seed);
    return Array.from({ length: 4 }, () => random.integer(1_000_000));
  };
  expect(numbers(0)).toEqual(numbers(0));
  expect(new Set([0, 1, 2, 2 ** 40, 2 ** 40 + 1].map((seed) => numbers(seed).join())).size).toBe(5);
  expect(numbers(0)).toMatchInlineSnapshot(`
    [
      416751,
      10470,
      587056,
      896104,
    ]
  `);
});

test("a shuffle keeps every item, leaves its input, and reaches every order", () => {
  const random = createRandom(7);
  const input = [1, 2, 3];
  const orders = new Map<string, number>();
  for (let round = 0; round < 6_000; round += 1) {
    const order = random.shuffle(input).join();
    orders.set(order, (orders.get(order) ?? 0) + 1);
  }
  expect(input).toEqual([1, 2, 3]);
  expect([...orders.keys()].sort()).toEqual(["1,2,3", "1,3,2", "2,1,3", "2,3,1", "3,1,2", "3,2,1"]);
  for (const count of orders.values()) expect(Math.abs(count - 1_000)).toBeLessThan(150);
});
