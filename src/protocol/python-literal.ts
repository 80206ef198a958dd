import { stringEnd } from "./json-text.ts";

/**
 * Structured span attributes of the original are Python literals (`str(value)`), not JSON.
 * Readers there evaluate literals only, so JSON's `null`, `true` and `false` are unreadable to them.
 */

const maxLength = 64 * 1024 * 1024;
const maxDepth = 200;

/** A value that came from JSON, as Python prints it. */
export function toPythonLiteral(value: unknown): string {
  // Token ids: thousands of them in every call.
  if (Array.isArray(value)) {
    return `[${(value.every(Number.isSafeInteger) ? value : value.map(toPythonLiteral)).join(", ")}]`;
  }
  return jsonToPythonLiteral(JSON.stringify(value) ?? "null");
}

/** The same for valid JSON text. Works on the text, so `1.0` and `1` stay different and long integers stay whole. */
export function jsonToPythonLiteral(json: string): string {
  let literal = "";
  for (let position = 0; position < json.length;) {
    const quote = json.indexOf('"', position);
    if (quote === -1) return literal + pythonTokens(json.slice(position));
    const end = stringEnd(json, quote);
    literal += pythonTokens(json.slice(position, quote)) + pythonString(json.slice(quote, end));
    position = end;
  }
  return literal;
}

const spelledOtherwise = /null|true|false|-?\d+(?=[.eE])[\d.eE+-]+/g;

/** Everything but strings. Long lists of integers come through here, so it works on the whole text at once. */
function pythonTokens(json: string): string {
  const compact = /\s/.test(json) ? json.replace(/\s+/g, "") : json;
  const spelled = /[a-z.E]/.test(compact) ? compact.replace(spelledOtherwise, pythonToken) : compact;
  // For 480 ids: 9 us; replaceAll takes 29, a regular expression 16 to 57.
  return spelled.split(",").join(", ").split(":").join(": ");
}

function pythonToken(token: string): string {
  switch (token) {
    case "null":
      return "None";
    case "true":
      return "True";
    case "false":
      return "False";
  }
  return pythonFloat(Number(token));
}

/** Python's repr of a float: an exponent below 1e-4 and from 1e16, two digits at least; never without a point. */
function pythonFloat(value: number): string {
  // JSON has no infinity; a literal too large for a double becomes the largest one.
  if (!Number.isFinite(value)) return value > 0 ? "1.7976931348623157e+308" : "-1.7976931348623157e+308";
  if (value === 0) return Object.is(value, -0) ? "-0.0" : "0.0";
  const magnitude = Math.abs(value);
  if (magnitude >= 1e-4 && magnitude < 1e16) {
    const text = String(value);
    return /[.e]/.test(text) ? text : `${text}.0`;
  }
  const [digits = "", exponent = "0"] = value.toExponential().split("e");
  const size = exponent.replace(/^[+-]/, "").padStart(2, "0");
  return `${digits}e${exponent.startsWith("-") ? "-" : "+"}${size}`;
}

const plainText = /^[\x20-\x7e\xa1-\xac\xae-\u02ff\u3040-\ud7ff]*$/;
// Escaped: backslash, control and format characters, separators other than the blank, lone surrogates, unassigned.
const unprintable = /[\\\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;

function pythonString(json: string): string {
  const text = JSON.parse(json) as string;
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped =
    plainText.test(text) && !text.includes("\\") ? text : text.replace(unprintable, escapeCharacter);
  return quote + (quote === "'" ? escaped.replaceAll("'", "\\'") : escaped) + quote;
}

function escapeCharacter(character: string): string {
  switch (character) {
    case "\\":
      return "\\\\";
    case "\n":
      return "\\n";
    case "\r":
      return "\\r";
    case "\t":
      return "\\t";
  }
  const code = character.codePointAt(0) ?? 0;
  if (code <= 0xff) return `\\x${code.toString(16).padStart(2, "0")}`;
  if (code <= 0xffff) return `\\u${code.toString(16).padStart(4, "0")}`;
  return `\\U${code.toString(16).padStart(8, "0")}`;
}

class Unreadable extends Error {}

/** Undefined when the text is not one Python literal made of what JSON can hold. Never throws, never evaluates. */
export function parsePythonLiteral(text: string): unknown {
  if (text.length > maxLength) return undefined;
  try {
    const reader = new LiteralReader(text);
    const value = reader.value(0);
    return reader.atEnd() ? value : undefined;
  } catch (error) {
    if (error instanceof Unreadable) return undefined;
    throw error;
  }
}

/** A structured attribute as anyone may have written it: native, JSON text, Python text, else the value itself. */
export function readStructured(attribute: unknown): unknown {
  if (typeof attribute !== "string" || attribute.length > maxLength) return attribute;
  if (!/^\s*[[{("'\-+\dntfNTF]/.test(attribute)) return attribute;
  return parseJson(attribute) ?? parsePythonLiteral(attribute) ?? attribute;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const spaces = /\s*/y;
const numeral = /[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?/y;
const word = /[A-Za-z_]+/y;
const stringStart = /[uU]?(['"])/y;

class LiteralReader {
  readonly text: string;
  position = 0;

  constructor(text: string) {
    this.text = text;
  }

  atEnd(): boolean {
    this.take(spaces);
    return this.position === this.text.length;
  }

  value(depth: number): unknown {
    if (depth > maxDepth) throw new Unreadable();
    this.take(spaces);
    switch (this.text[this.position]) {
      case "{":
        return this.dictionary(depth);
      case "[":
        return this.sequence("]", depth).items;
      case "(":
        return this.tuple(depth);
    }
    return this.string() ?? this.number() ?? this.constant();
  }

  private take(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.position;
    const match = pattern.exec(this.text);
    if (match !== null) this.position = pattern.lastIndex;
    return match;
  }

  private accept(character: string): boolean {
    this.take(spaces);
    if (this.text[this.position] !== character) return false;
    this.position += 1;
    return true;
  }

  private sequence(close: string, depth: number): { items: unknown[]; comma: boolean } {
    this.position += 1;
    const items: unknown[] = [];
    let comma = false;
    while (!this.accept(close)) {
      if (items.length > 0 && !comma) throw new Unreadable();
      items.push(this.value(depth + 1));
      comma = this.accept(",");
    }
    return { items, comma };
  }

  private tuple(depth: number): unknown {
    const { items, comma } = this.sequence(")", depth);
    return items.length === 1 && !comma ? items[0] : items;
  }

  private dictionary(depth: number): unknown {
    this.position += 1;
    const entries: [string, unknown][] = [];
    let separated = true;
    while (!this.accept("}")) {
      if (!separated) throw new Unreadable();
      const key = this.value(depth + 1);
      if (typeof key !== "string" && typeof key !== "number") throw new Unreadable();
      if (!this.accept(":")) throw new Unreadable();
      entries.push([String(key), this.value(depth + 1)]);
      separated = this.accept(",");
    }
    return Object.fromEntries(entries);
  }

  private string(): string | undefined {
    let joined: string | undefined;
    let start: RegExpExecArray | null;
    while ((start = this.take(stringStart)) !== null) {
      joined = (joined ?? "") + this.stringBody(start[1] ?? "'");
      this.take(spaces);
    }
    return joined;
  }

  private stringBody(quote: string): string {
    const plain = quote === "'" ? /[^'\\\n]*/y : /[^"\\\n]*/y;
    let body = "";
    for (;;) {
      body += this.take(plain)?.[0] ?? "";
      const character = this.text[this.position];
      this.position += 1;
      if (character === quote) return body;
      if (character !== "\\") throw new Unreadable();
      body += this.escape();
    }
  }

  private escape(): string {
    const character = this.text[this.position];
    if (character === undefined) throw new Unreadable();
    const octal = this.take(/[0-7]{1,3}/y)?.[0];
    if (octal !== undefined) return String.fromCharCode(parseInt(octal, 8));
    this.position += 1;
    switch (character) {
      case "x":
        return this.codePoint(2);
      case "u":
        return this.codePoint(4);
      case "U":
        return this.codePoint(8);
      case "N":
        throw new Unreadable();
    }
    return simpleEscapes[character] ?? `\\${character}`;
  }

  private codePoint(digits: number): string {
    const hexadecimal = this.text.slice(this.position, this.position + digits);
    const code = /^[0-9a-fA-F]+$/.test(hexadecimal) ? parseInt(hexadecimal, 16) : Infinity;
    if (hexadecimal.length !== digits || code > 0x10ffff) throw new Unreadable();
    this.position += digits;
    return String.fromCodePoint(code);
  }

  private number(): number | undefined {
    const match = this.take(numeral);
    if (match === null) return undefined;
    const value = Number(match[0].replaceAll("_", ""));
    if (!Number.isFinite(value)) throw new Unreadable();
    return value;
  }

  private constant(): boolean | null {
    switch (this.take(word)?.[0]) {
      case "None":
        return null;
      case "True":
        return true;
      case "False":
        return false;
    }
    throw new Unreadable();
  }
}

const simpleEscapes: { [character: string]: string } = {
  "\\": "\\",
  "'": "'",
  '"': '"',
  "\n": "",
  a: "\x07",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
};
