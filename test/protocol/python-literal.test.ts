import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  jsonToPythonLiteral,
  parsePythonLiteral,
  readStructured,
  toPythonLiteral,
} from "../../src/protocol/python-literal.ts";

describe("writing", () => {
  test.each([
    [null, "None"],
    [true, "True"],
    [[1, 2, 3], "[1, 2, 3]"],
    [{ a: null, b: [false] }, "{'a': None, 'b': [False]}"],
    ["Don't", '"Don\'t"'],
    [`"Don't"`, `'"Don\\'t"'`],
    ["a\\b\n\t\r\u0000\x7f", "'a\\\\b\\n\\t\\r\\x00\\x7f'"],
    ["né 漢字 😀", "'né 漢字 😀'"],
    ["\ud800", "'\\ud800'"],
    ["\u00a0\u2028\ufeff", "'\\xa0\\u2028\\ufeff'"],
    [1e-7, "1e-07"],
    [0.0001, "0.0001"],
    [1.5e300, "1.5e+300"],
    [{}, "{}"],
    [[], "[]"],
  ])("%j becomes %s", (value, literal) => {
    expect(toPythonLiteral(value)).toBe(literal);
  });

  test("the number's own text decides between integer and float, and long integers stay whole", () => {
    expect(jsonToPythonLiteral('{"t": 0.0, "n":1, "e":1E2, "seed": 12345678901234567890, "x": -1e-05}')).toBe(
      "{'t': 0.0, 'n': 1, 'e': 100.0, 'seed': 12345678901234567890, 'x': -1e-05}",
    );
  });
});

describe("reading", () => {
  test.each([
    ["{'a': None, 'b': [True, -1.5e-3]}", { a: null, b: [true, -0.0015] }],
    ["(1, 2)", [1, 2]],
    ["(1,)", [1]],
    ["(1)", 1],
    ["()", []],
    ["[1, 2, ]", [1, 2]],
    ["{'a': 1, }", { a: 1 }],
    ["'a' \"b\" 'c'", "abc"],
    ["u'\\x41\\u00e9\\U0001f600\\101\\q\\a'", "Aé😀A\\q\x07"],
    ["{1: 'x'}", { "1": "x" }],
  ])("%s", (text, value) => {
    expect(parsePythonLiteral(text)).toEqual(value);
  });

  test.each([
    "",
    "[1 2]",
    "[,]",
    "{'a' 1}",
    "{'a': 1 'b': 2}",
    "'open",
    "'\\x4'",
    "'\\UFFFFFFFF'",
    "nan",
    "inf",
    "1e999",
    "__import__('os')",
    "[1] [2]",
    "{[1]: 2}",
    "{None: 2}",
    "'line\nbreak'",
    "b'x'",
  ])("%j is not a literal", (text) => {
    expect(parsePythonLiteral(text)).toBeUndefined();
  });

  test("nesting has a limit", () => {
    expect(parsePythonLiteral("[".repeat(150) + "]".repeat(150))).toBeDefined();
    expect(parsePythonLiteral("[".repeat(1_000_000))).toBeUndefined();
    expect(readStructured("[".repeat(1_000_000))).toBe("[".repeat(1_000_000));
  });

  test("structured attributes are read natively, as JSON, as Python, else kept as text", () => {
    expect(readStructured([1, 2])).toEqual([1, 2]);
    expect(readStructured('[{"a":null}]')).toEqual([{ a: null }]);
    expect(readStructured("[{'a': None}]")).toEqual([{ a: null }]);
    expect(readStructured("auto")).toBe("auto");
    expect(readStructured("not a literal")).toBe("not a literal");
  });
});

test("every JSON value comes back from its Python literal", () => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: "binary" }), (value) => {
      const plain: unknown = JSON.parse(JSON.stringify(value));
      expect(parsePythonLiteral(toPythonLiteral(plain))).toEqual(plain);
    }),
    { numRuns: 500 },
  );
});

test("every text comes back, lone surrogates and quotes included", () => {
  const unit = fc.oneof(fc.constantFrom("'", '"', "\\", "\n", "\ud83d", "\ude00", "é"), fc.string());
  fc.assert(
    fc.property(fc.array(unit), (pieces) => {
      const text = pieces.join("");
      expect(parsePythonLiteral(toPythonLiteral(text))).toBe(text);
    }),
  );
});

test("garbage never throws", () => {
  const unit = fc.constantFrom(
    "'",
    '"',
    "\\",
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    ",",
    ":",
    "1",
    ".",
    "e",
    "-",
    "N",
    "None",
    " ",
  );
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.array(unit).map((pieces) => pieces.join("")),
      ),
      (text) => {
        parsePythonLiteral(text);
        readStructured(text);
      },
    ),
    { numRuns: 2000 },
  );
});
