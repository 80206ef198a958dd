import { rewriteJson } from "./json-strings.ts";
import { markKeys, unmarkKeys } from "./key-order.ts";

/**
 * JSON that comes back as it went in. `JSON.parse` alone turns `1.0` into `1`, rounds integers
 * beyond 2^53, moves members named by integers to the front, and refuses the tokens NaN and Infinity
 * that Python writes. Here, numbers that would change become raw JSON values, which `JSON.stringify`
 * writes digit for digit; the tokens become numbers that are written as null; and members keep
 * their order between `parseJson` and `stringifyJson`.
 */

interface RawJson {
  readonly rawJSON: string;
}

interface RawJsonSupport {
  rawJSON(text: string): RawJson;
  isRawJSON(value: unknown): value is RawJson;
}

type Reviver = (this: unknown, key: string, value: unknown, context: { source?: string }) => unknown;
type Parse = (text: string, reviver: Reviver) => unknown;

const support = JSON as unknown as RawJsonSupport;

/**
 * Finds every number that might change, and some that do not: strings are not told apart. All digits are taken at once
 * (a look-ahead is not tried again with fewer): of a call with its 800 ids that takes half as long, 15 us.
 */
const suspectNumber = /(?:^|[[:,\s])-?(?=(\d+))\1(?:(?<=\d{16})|\.0+(?!\d)|(?:\.\d+)?[eE])/;
const token = /-?\bInfinity\b|\bNaN\b/g;

/**
 * Throws SyntaxError for what is not JSON, apart from Python's three tokens. The names of members that
 * look like integers, or mean something to JavaScript, are marked until `stringifyJson` writes them.
 */
export function parseJson(text: string): unknown {
  return parseExactNumbers(markKeys(text) ?? text);
}

/** Writes what `parseJson` read, and objects made by `exactOnWire`, alone or in an array or a page. */
export function stringifyJson(value: unknown): string {
  const known = (value as { [knownText]?: () => string | undefined } | null | undefined)?.[knownText]?.();
  return known ?? unmarkKeys(JSON.stringify(wireForm(value)));
}

function parseExactNumbers(text: string): unknown {
  if (suspectNumber.test(text)) return parseWithTokens(text);
  try {
    return JSON.parse(text);
  } catch (error) {
    if (!/NaN|Infinity/.test(text)) throw error;
    return parseWithTokens(text);
  }
}

function parseWithTokens(text: string): unknown {
  const parse = JSON.parse as Parse;
  try {
    return parse(text, keepNumber);
  } catch (error) {
    if (!/NaN|Infinity/.test(text)) throw error;
    const numbers = (rest: string) => rest.replace(token, "1e999");
    return parse(
      rewriteJson(text, (quoted) => quoted, numbers),
      keepNumber,
    );
  }
}

function keepNumber(_key: string, value: unknown, context: { source?: string }): unknown {
  if (typeof value !== "number" || context.source === undefined) return value;
  if (!Number.isFinite(value)) return support.rawJSON("null");
  return context.source === String(value) ? value : support.rawJSON(context.source);
}

/** A number written as it is given, for example `1.0`. */
export function exactNumber(text: string): unknown {
  return support.rawJSON(text);
}

/** The digits of a number from `parseJson`; `null` for a token such as NaN; undefined for anything else. */
export function numberText(value: unknown): string | undefined {
  if (typeof value === "number") return String(value);
  return support.isRawJSON(value) ? value.rawJSON : undefined;
}

/** The number behind a value from `parseJson`; NaN for the tokens; undefined for anything else. */
export function numberOf(value: unknown): number | undefined {
  if (typeof value === "number") return value;
  if (!support.isRawJSON(value)) return undefined;
  return value.rawJSON === "null" ? Number.NaN : Number(value.rawJSON);
}

export function isJsonObject(value: unknown): value is { [name: string]: unknown } {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !support.isRawJSON(value);
}

export function isJsonText(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

const onWire = Symbol("the form of an object that stringifyJson writes");

/**
 * An object read from stored JSON texts. Its members are plain JavaScript values; where a text holds
 * numbers that these cannot show, `JSON.stringify` of the object still writes them unchanged, and
 * `stringifyJson` keeps the order of its members, too.
 */
export function exactOnWire<Item extends object>(
  texts: readonly (string | null)[],
  build: (parse: (text: string) => any) => Item,
): Item {
  const item = build(JSON.parse);
  if (texts.some((text) => text !== null && suspectNumber.test(text))) {
    define(item, "toJSON", () => build(parseExactNumbers));
  }
  if (texts.some((text) => text !== null && markKeys(text) !== undefined)) {
    define(item, onWire, () => build(parseJson));
  }
  return item;
}

const knownText = Symbol("the JSON of an object that stringifyJson writes as it is");

/**
 * A page of stored JSON texts. Its items are read from them when somebody looks at one; until then `stringifyJson`
 * puts the texts together as they are, which takes a tenth of the time.
 */
export function pageOfTexts<Item>(
  texts: readonly string[],
  read: (text: string) => Item,
  cut: { limit: number; offset: number; total: number },
): { items: Item[]; limit: number; offset: number; total: number } {
  let items: Item[] | undefined;
  const page = {
    get items() {
      return (items ??= texts.map(read));
    },
    ...cut,
  };
  define(page, knownText, () => {
    if (items !== undefined) return undefined;
    const { limit, offset, total } = cut;
    return `{"items":[${texts.join(",")}],"limit":${limit},"offset":${offset},"total":${total}}`;
  });
  return page;
}

/** An answer of a store: as `JSON.parse` reads it, and each object, page item or element is as by `exactOnWire`. */
export function exactAnswer(text: string): unknown {
  const value: unknown = JSON.parse(text);
  const items = isJsonObject(value) && Array.isArray(value.items) ? value.items : value;
  if (!Array.isArray(items)) return isJsonObject(value) ? exactOnWire([text], (parse) => parse(text)) : value;
  const read = new Map<unknown, any>();
  const readOnce = (parse: (text: string) => any) => {
    if (!read.has(parse)) read.set(parse, parse(text));
    return read.get(parse);
  };
  const exactItems = items.map((item, index) => {
    if (!isJsonObject(item)) return item;
    return exactOnWire([text], (parse) => {
      const whole = readOnce(parse);
      return (Array.isArray(whole) ? whole : whole.items)[index];
    });
  });
  return items === value ? exactItems : { ...(value as object), items: exactItems };
}

function define(item: object, name: PropertyKey, value: () => unknown): void {
  Object.defineProperty(item, name, { value, enumerable: false });
}

function wireForm(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(wireForm);
  if (!isJsonObject(value)) return value;
  const own = (value as { [onWire]?: () => unknown })[onWire];
  if (own !== undefined) return own();
  return Array.isArray(value.items) ? { ...value, items: value.items.map(wireForm) } : value;
}
