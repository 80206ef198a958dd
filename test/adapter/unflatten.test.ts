import { expect, test } from "bun:test";
import fc from "fast-check";
import { unflatten } from "../../src/adapter/unflatten.ts";
import type { Attributes } from "../../src/protocol/types.ts";

// 3.3, T59, T60
test.each<[string, Attributes, unknown]>([
  ["objects and lists", { "p.x.y": 7, "p.z.0": 8, "p.z.1": 9 }, { x: { y: 7 }, z: [8, 9] }],
  ["native lists stay", { "p.z": [8, 9] }, { z: [8, 9] }],
  ["a list at the top", { "p.0.a": 1, "p.1.a": 2 }, [{ a: 1 }, { a: 2 }]],
  ["gaps make no list", { "p.0": 1, "p.2": 2 }, { 0: 1, 2: 2 }],
  ["numbers with leading zeros make no list", { "p.00": 1 }, { "00": 1 }],
  ["a value before its object", { "p.x": 1, "p.x.y": 2 }, { x: { y: 2 } }],
  ["a value after its object", { "p.x.y": 2, "p.x": 1 }, { x: { y: 2 } }],
  ["other prefixes", { p: 1, "pp.x": 2, "q.p.x": 3 }, null],
])("%s", (_, attributes, expected) => {
  expect(unflatten(attributes, "p")).toEqual(expected);
});

test("a name of the language's own is a name like any other", () => {
  const value = unflatten({ "p.__proto__.polluted": true }, "p") as object;
  expect(Object.hasOwn(value, "__proto__")).toBe(true);
  expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
});

test("depth is bounded, and the order of the keys makes no difference", () => {
  expect(() => unflatten({ [`p${".x".repeat(100_000)}`]: 1 }, "p")).not.toThrow();
  const name = fc.constantFrom("0", "1", "a", "b");
  const entries = fc.array(fc.tuple(fc.array(name, { minLength: 1, maxLength: 4 }), fc.nat()), {
    maxLength: 8,
  });
  fc.assert(
    fc.property(entries, (rows) => {
      const unique = [...new Map(rows.map(([path, value]) => [`p.${path.join(".")}`, value]))];
      const forwards = unflatten(Object.fromEntries(unique), "p");
      expect(unflatten(Object.fromEntries(unique.toReversed()), "p")).toEqual(forwards);
    }),
  );
});
