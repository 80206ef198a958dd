import { expect, test } from "bun:test";
import fc from "fast-check";
import {
  applyEdits,
  elementsOf,
  membersOf,
  removalEdits,
  withMembers,
} from "../../src/protocol/json-text.ts";

const object = fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 6 });
const spelled = fc.tuple(object, fc.constantFrom(undefined, 1, "\t")).map(([value, indent]) => ({
  value: JSON.parse(JSON.stringify(value)) as { [key: string]: unknown },
  text: JSON.stringify(value, null, indent),
}));

test("members are found with their values, however the text is laid out", () => {
  fc.assert(
    fc.property(spelled, ({ value, text }) => {
      const read = membersOf(text).map((member) => [
        member.key,
        JSON.parse(text.slice(member.valueStart, member.end)) as unknown,
      ]);
      expect(Object.fromEntries(read)).toEqual(value);
    }),
  );
});

test("elements are found", () => {
  fc.assert(
    fc.property(fc.array(fc.jsonValue()), fc.constantFrom(undefined, 2), (values, indent) => {
      const text = JSON.stringify(values, null, indent);
      const read = elementsOf(text).map(({ start, end }) => JSON.parse(text.slice(start, end)) as unknown);
      expect(read).toEqual(JSON.parse(text));
    }),
  );
});

test("removing any members leaves the others and valid JSON", () => {
  fc.assert(
    fc.property(spelled, fc.func(fc.boolean()), ({ value, text }, remove) => {
      const edited = applyEdits(
        text,
        removalEdits(membersOf(text), (member) => remove(member.key)),
      );
      const kept = Object.fromEntries(Object.entries(value).filter(([key]) => !remove(key)));
      expect(JSON.parse(edited)).toEqual(kept);
    }),
  );
});

test("what is not touched keeps its bytes", () => {
  const text = '{ "a" : 1.0, "x":[1,2], "seed": 12345678901234567890 ,"b":"\\u00e9\\"" }';
  const edits = removalEdits(membersOf(text), (member) => member.key === "x");
  expect(applyEdits(text, edits)).toBe('{ "a" : 1.0, "seed": 12345678901234567890 ,"b":"\\u00e9\\"" }');
});

test("setting members replaces every earlier value of those keys", () => {
  expect(withMembers('{"model":"a","n":1.0,"model":"b"}', { model: '"c"' })).toBe('{"n":1.0,"model":"c"}');
  expect(withMembers("{}", { model: '"c"', n: "1" })).toBe('{"model":"c","n":1}');
  fc.assert(
    fc.property(spelled, object, ({ value, text }, added) => {
      const texts = Object.fromEntries(
        Object.entries(added).map(([key, item]) => [key, JSON.stringify(item)]),
      );
      const plain = JSON.parse(JSON.stringify(added)) as object;
      expect(JSON.parse(withMembers(text, texts))).toEqual({ ...value, ...plain });
    }),
  );
});
