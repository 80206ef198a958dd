import { expect, test } from "bun:test";
import fc from "fast-check";
import { rendezvous } from "../../../src/proxy/servers/rendezvous.ts";

const keys = Array.from({ length: 2_000 }, (_, index) => `ro-${index}`);
const servers = (weights: number[]) => weights.map((weight, index) => ({ name: `server-${index}`, weight }));
const homes = (items: { name: string; weight: number }[]) => keys.map((key) => rendezvous(key, items)?.name);

const someWeights = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 6 });

test("each server gets keys by its weight", () => {
  fc.assert(
    fc.property(someWeights, (weights) => {
      const counts = Map.groupBy(homes(servers(weights)), (name) => name);
      const total = weights.reduce((sum, weight) => sum + weight, 0);
      weights.forEach((weight, index) => {
        const share = (counts.get(`server-${index}`)?.length ?? 0) / keys.length;
        expect(Math.abs(share - weight / total)).toBeLessThan(0.06);
      });
    }),
    { numRuns: 30 },
  );
});

test("a server that comes or goes moves only its own keys, and the order of the list moves none", () => {
  fc.assert(
    fc.property(someWeights, fc.integer({ min: 1, max: 9 }), (weights, added) => {
      const few = servers(weights);
      const many = servers([...weights, added]);
      const [before, after] = [homes(few), homes(many.toReversed())];
      before.forEach((home, index) => {
        if (after[index] !== home) expect(after[index]).toBe(`server-${weights.length}`);
      });
    }),
    { numRuns: 20 },
  );
});

test("no weight, no keys; no servers, no choice", () => {
  expect(new Set(homes(servers([0, 3])))).toEqual(new Set(["server-1"]));
  expect(rendezvous("ro-1", [])).toBeUndefined();
  expect(rendezvous("ro-1", servers([0]))).toBeUndefined();
});
