import { attributeValue } from "../../protocol/attributes.ts";
import { exactNumber } from "../../protocol/json.ts";
import type { Attributes } from "../../protocol/types.ts";

/**
 * An `AnyValue`: null where none is set, a Map for a list of keys and values. Integers beyond 2^53 and integral
 * floats keep their spelling as raw JSON numbers.
 */
export type OtlpValue = unknown;

export type OtlpKeyValue = [key: string, value: OtlpValue];

/** How deep values may hold values. */
export const maxValueDepth = 32;

/** Attributes as spans hold them: what those cannot hold (nested values, mixed lists, nothing) becomes JSON text. */
export function attributesOf(entries: readonly OtlpKeyValue[]): Attributes {
  return Object.fromEntries(
    entries.map(([key, value]) => [key, attributeValue(value) ?? JSON.stringify(plain(value))]),
  );
}

export function integerValue(value: bigint): OtlpValue {
  return Number.isSafeInteger(Number(value)) ? Number(value) : exactNumber(String(value));
}

/** `1.0` stays a float. JSON has no NaN and no infinity: these become text. */
export function floatValue(value: number): OtlpValue {
  if (!Number.isFinite(value)) return String(value);
  // From 1e21 on, JavaScript writes an exponent, which no reader takes for an integer.
  if (!Number.isInteger(value) || Math.abs(value) >= 1e21) return value;
  return exactNumber(Object.is(value, -0) ? "-0.0" : `${value}.0`);
}

function plain(value: OtlpValue): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (!(value instanceof Map)) return value;
  return Object.fromEntries([...value].map(([key, item]) => [key, plain(item)]));
}
