import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  exactAnswer,
  exactNumber,
  exactOnWire,
  isJsonObject,
  numberOf,
  numberText,
  pageOfTexts,
  parseJson,
  stringifyJson,
} from "../../src/protocol/json.ts";

const roundTrip = (text: string) => stringifyJson(parseJson(text));

// T-31, D-4
describe("opaque numbers come back digit for digit", () => {
  test.each([
    '{"seed":12345678901234567890}',
    '{"f":1.0,"i":1}',
    "[1.0,[2.50,-3.0],1e5,1E-7,-0,-0.0]",
    "9007199254740993",
    "1.0",
    '{"a":{"b":[{"c":100000000000000000000000000.0}]}}',
  ])("%s", (text) => {
    expect(roundTrip(text)).toBe(text);
  });

  test("a string that looks like such a number is left alone", () => {
    const text = '{"s":"1.0, 12345678901234567890 NaN","t":": 1e5"}';
    expect(roundTrip(text)).toBe(text);
  });

  test("numbers that JavaScript shows unchanged stay numbers", () => {
    expect(parseJson('{"a":1,"b":0.25,"c":-7,"d":1766538002.9375408}')).toEqual({
      a: 1,
      b: 0.25,
      c: -7,
      d: 1766538002.9375408,
    });
  });

  test("any tree written as Python writes floats survives", () => {
    const number = fc.oneof(
      fc.bigInt().map(String),
      fc.integer().map((value) => `${value}.0`),
      fc.integer().map(String),
      fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => JSON.stringify(value)),
    );
    const scalar = fc.oneof(
      number,
      fc.string().map((value) => JSON.stringify(value)),
      fc.constant("null"),
    );
    const { tree } = fc.letrec<{ tree: string }>((tie) => ({
      tree: fc.oneof(
        { depthSize: "small" },
        scalar,
        fc.array(tie("tree")).map((items) => `[${items.join(",")}]`),
        fc
          .array(tie("tree"))
          .map((items) => `{${items.map((item, index) => `"k${index}":${item}`).join(",")}}`),
      ),
    }));
    fc.assert(fc.property(tree, (text) => expect(roundTrip(text)).toBe(text)));
  });
});

// T-32, W-12
describe("Python's tokens for numbers that are none", () => {
  test("they are accepted and written as null", () => {
    expect(roundTrip('{"a":NaN,"b":[Infinity,-Infinity],"c":1}')).toBe('{"a":null,"b":[null,null],"c":1}');
  });

  test("inside strings they are text, also behind escaped quotes", () => {
    expect(roundTrip('{"a":"NaN \\"Infinity","b":NaN}')).toBe('{"a":"NaN \\"Infinity","b":null}');
  });

  test("a long string full of escapes does not hide what follows", () => {
    const text = (tail: string) => `{"2":"${'\\"1\\":NaN,'.repeat(300_000)}","1":${tail}}`;
    expect(roundTrip(text("NaN")) === text("null")).toBe(true);
  });

  test("they are told apart from null", () => {
    const value = parseJson("[NaN,null]") as unknown[];
    expect(numberOf(value[0])).toBeNaN();
    expect(numberOf(value[1])).toBeUndefined();
  });

  test.each(["nan", "{NaN:1}", "[NaNs]", "", "{", '{"a":1,}', "[01]"])("%p is still no JSON", (text) => {
    expect(() => parseJson(text)).toThrow(SyntaxError);
  });
});

test("a raw number is a number, not an object", () => {
  const value = parseJson("12345678901234567890");
  expect(isJsonObject(value)).toBe(false);
  expect(numberText(value)).toBe("12345678901234567890");
  expect(numberOf(value)).toBe(Number("12345678901234567890"));
  expect(numberOf(exactNumber("2.0"))).toBe(2);
  expect(numberOf("2")).toBeUndefined();
});

test("a stored object reads as plain values and is written with its own digits", () => {
  const text = '{"reward":1.0,"seed":12345678901234567890}';
  const item = exactOnWire([text], (parse) => ({ id: "x", input: parse(text) }));
  expect(item.input.reward).toBe(1);
  expect(JSON.stringify({ items: [item] })).toBe(`{"items":[{"id":"x","input":${text}}]}`);
});

// D-4
describe("members keep their order", () => {
  test.each([
    '{"b":1,"2":{"10":0,"9":[{"1":1.0,"0":NaN}]},"1":2}',
    '{"text":"\\"2\\": \\\\","2":"1","a:":":","1":0}',
  ])("also where they are named by integers: %s", (text) => {
    expect(roundTrip(text)).toBe(text.replace("NaN", "null"));
  });

  test("in a stored object, alone and in a page, while its values read plainly", () => {
    const text = '{"50256":-100,"11":1.0}';
    const item = exactOnWire([text], (parse) => ({ bias: parse(text) }));
    expect(item.bias).toEqual({ "11": 1, "50256": -100 });
    expect(stringifyJson(item)).toBe(`{"bias":${text}}`);
    expect(stringifyJson({ items: [item], total: 1 })).toBe(`{"items":[{"bias":${text}}],"total":1}`);
    // Plain JSON.stringify knows the digits but nothing of marks.
    expect(JSON.stringify(item)).toBe('{"bias":{"11":1.0,"50256":-100}}');
  });

  test("whatever their names are", () => {
    const name = fc.oneof(fc.nat().map(String), fc.string());
    const object = fc.uniqueArray(name).map((names) => {
      const members = names.map((member, index) => `${JSON.stringify(member)}:${index}`);
      return `{${members.join(",")}}`;
    });
    fc.assert(fc.property(object, (text) => expect(roundTrip(text)).toBe(text)));
  });
});

describe("a store's answer", () => {
  const opaque = '{"50256":1.0,"11":12345678901234567890,"s":"1.0"}';

  test("reads plainly, and each object, element or item of it is written as it came", () => {
    const one = exactAnswer(opaque) as any;
    expect(one["50256"]).toBe(1);
    expect(stringifyJson(one)).toBe(opaque);
    const [, second] = exactAnswer(`[{"a":1},{"input":${opaque}}]`) as any[];
    expect(second.input.s).toBe("1.0");
    expect(stringifyJson(second)).toBe(`{"input":${opaque}}`);
    const page = exactAnswer(`{"items":[{"input":${opaque}},{"b":2.50}],"total":2}`) as any;
    expect(page.total).toBe(2);
    expect(page.items.map(stringifyJson)).toEqual([`{"input":${opaque}}`, '{"b":2.50}']);
    expect(stringifyJson(page)).toBe(`{"items":[{"input":${opaque}},{"b":2.50}],"total":2}`);
  });

  test("that is no object is what it is", () => {
    expect(exactAnswer("null")).toBeNull();
    expect(exactAnswer("[1, null, []]")).toEqual([1, null, []]);
  });

  test("whatever JSON its items are", () => {
    fc.assert(
      fc.property(fc.array(fc.dictionary(fc.string(), fc.jsonValue())), (objects) => {
        const texts = objects.map((object) => `{"input":${JSON.stringify(object)},"n":1.0}`);
        const items = (exactAnswer(`{"items":[${texts.join()}]}`) as { items: unknown[] }).items;
        expect(items.map(stringifyJson)).toEqual(texts);
      }),
    );
  });
});

describe("a page of stored texts", () => {
  const texts = ['{"b":1.0,"1":{"a":9007199254740993}}', '{"c":"d"}'];
  const cut = { limit: 2, offset: 4, total: 9 };
  const page = () => pageOfTexts(texts, (text) => exactOnWire([text], (parse) => parse(text) as object), cut);

  test("is written as the texts are, without reading them", () => {
    const unread = pageOfTexts(texts, () => expect.unreachable("nobody looked at an item"), cut);
    expect(stringifyJson(unread)).toBe(`{"items":[${texts}],"limit":2,"offset":4,"total":9}`);
  });

  test("shows its items to whoever looks, and is written the same afterwards", () => {
    const looked = page();
    expect(looked).toEqual({ items: texts.map((text) => JSON.parse(text)), ...cut });
    expect(stringifyJson(looked)).toBe(stringifyJson(page()));
  });

  test("whose items were changed is written as it is then", () => {
    const changed = page();
    changed.items.pop();
    expect(stringifyJson(changed)).toBe(`{"items":[${texts[0]}],"limit":2,"offset":4,"total":9}`);
  });

  test("may be empty", () => {
    const empty = pageOfTexts([], JSON.parse, { limit: -1, offset: 0, total: 0 });
    expect(stringifyJson(empty)).toBe('{"items":[],"limit":-1,"offset":0,"total":0}');
  });
});
