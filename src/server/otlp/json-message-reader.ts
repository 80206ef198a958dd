import { messageOf } from "../../errors.ts";
import { isJsonObject, numberOf, numberText, parseJson, stringifyJson } from "../../protocol/json.ts";
import { MessageBudget, PayloadError } from "./payload-error.ts";

/** JSON that is not the expected message: names the member and what it holds. */
export class JsonMessageError extends PayloadError {}

interface Place {
  parent: JsonMessageReader;
  key: string | number;
}

/**
 * Reads the members of one message in protobuf's JSON mapping. Unknown members are ignored; an absent one or a null is
 * what an unset field is: empty, zero or false.
 */
export class JsonMessageReader {
  readonly #members: { [name: string]: unknown };
  readonly #place: Place | null;
  readonly #budget: MessageBudget;

  private constructor(value: unknown, place: Place | null, budget: MessageBudget) {
    budget.take();
    this.#place = place;
    this.#budget = budget;
    if (value !== undefined && value !== null && !isJsonObject(value)) {
      throw new JsonMessageError(`${this.#path() || "the body"} is ${shown(value)}: send an object`);
    }
    this.#members = value ?? {};
  }

  /** An empty body is an empty message, as it is in protobuf. */
  static of(bytes: Uint8Array, budget = new MessageBudget()): JsonMessageReader {
    return new JsonMessageReader(bytes.length === 0 ? {} : parse(bytes), null, budget);
  }

  has(name: string): boolean {
    const value = this.#value(name);
    return value !== undefined && value !== null;
  }

  message(name: string): JsonMessageReader {
    return this.#child(this.#value(name), name, this);
  }

  messages(name: string): JsonMessageReader[] {
    if (!this.has(name)) return [];
    const value = this.#value(name);
    if (!Array.isArray(value)) throw this.#refusal(name, "an array");
    return value.map((item, index) => this.#child(item, `${name}[${index}]`, this));
  }

  text(name: string): string {
    if (!this.has(name)) return "";
    const value = this.#value(name);
    if (typeof value !== "string") throw this.#refusal(name, "a text");
    return value;
  }

  truth(name: string): boolean {
    if (!this.has(name)) return false;
    const value = this.#value(name);
    if (typeof value !== "boolean") throw this.#refusal(name, "true or false");
    return value;
  }

  /** Ids come as hexadecimal digits, unlike other bytes. */
  id(name: string): string {
    const text = this.text(name);
    if (text.length % 2 === 1 || !/^[0-9a-f]*$/i.test(text)) {
      throw this.#refusal(name, "pairs of hexadecimal digits");
    }
    return text.toLowerCase();
  }

  /** Base64, of either alphabet. */
  bytes(name: string): Uint8Array {
    const text = this.text(name).replaceAll("-", "+").replaceAll("_", "/");
    try {
      return Uint8Array.fromBase64(text);
    } catch {
      throw this.#refusal(name, "bytes in base64");
    }
  }

  signed64(name: string): bigint {
    return this.#integer(name, -(2n ** 63n), 2n ** 63n - 1n);
  }

  unsigned64(name: string): bigint {
    return this.#integer(name, 0n, 2n ** 64n - 1n);
  }

  /** Enumerations are numbers here, never names. */
  enumeration(name: string): number {
    if (typeof this.#value(name) === "string") throw this.#refusal(name, "its number");
    return Number(this.#integer(name, -(2n ** 31n), 2n ** 31n - 1n));
  }

  double(name: string): number {
    if (!this.has(name)) return 0;
    const value = this.#value(name);
    const number = typeof value === "string" ? doubleOf(value) : numberOf(value);
    // The bare tokens NaN and Infinity cannot be told apart.
    if (number === undefined || numberText(value) === "null") {
      throw this.#refusal(name, `a number, or "NaN", "Infinity" or "-Infinity" as text`);
    }
    return number;
  }

  /** Of fields that exclude each other, the one that is set; null when none is. */
  only<Name extends string>(names: readonly Name[]): Name | null {
    const present = names.filter((name) => this.has(name));
    if (present.length > 1) {
      throw new JsonMessageError(`${this.#path()} has ${present.join(" and ")}: send one of them`);
    }
    return present[0] ?? null;
  }

  #value(name: string): unknown {
    return Object.hasOwn(this.#members, name) ? this.#members[name] : undefined;
  }

  #child(value: unknown, key: string, parent: JsonMessageReader): JsonMessageReader {
    return new JsonMessageReader(value, { parent, key }, this.#budget);
  }

  #integer(name: string, min: bigint, max: bigint): bigint {
    if (!this.has(name)) return 0n;
    const value = this.#value(name);
    const integer = integerOf(typeof value === "string" ? value : (numberText(value) ?? ""));
    if (integer === null || integer < min || integer > max) {
      throw this.#refusal(name, `a whole number from ${min} to ${max}`);
    }
    return integer;
  }

  #refusal(name: string, expected: string): JsonMessageError {
    const path = [this.#path(), name].filter(Boolean).join(".");
    return new JsonMessageError(`${path} is ${shown(this.#value(name))}: send ${expected}`);
  }

  #path(): string {
    const names: (string | number)[] = [];
    for (let place = this.#place; place !== null; place = place.parent.#place) names.unshift(place.key);
    return names.join(".");
  }
}

function parse(bytes: Uint8Array): unknown {
  try {
    return parseJson(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (error) {
    throw new JsonMessageError(`the body is no JSON: ${messageOf(error)}`);
  }
}

/** `1e3` and `5.0` are whole numbers, too. */
function integerOf(text: string): bigint | null {
  if (/^-?\d{1,20}$/.test(text)) return BigInt(text);
  if (!/^-?\d+(?:\.\d+)?(?:e[+-]?\d+)?$/i.test(text)) return null;
  const number = Number(text);
  return Number.isInteger(number) ? BigInt(number) : null;
}

function doubleOf(text: string): number | undefined {
  if (text === "NaN" || text === "Infinity" || text === "-Infinity") return Number(text);
  return /^-?\d+(?:\.\d+)?(?:e[+-]?\d+)?$/i.test(text) ? Number(text) : undefined;
}

function shown(value: unknown): string {
  if (Array.isArray(value)) return "an array";
  if (isJsonObject(value)) return "an object";
  const text = stringifyJson(value);
  return text.length <= 60 ? text : `${text.slice(0, 60)}…`;
}
