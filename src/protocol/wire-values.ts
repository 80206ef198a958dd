import * as v from "valibot";
import { isJsonObject, numberOf } from "./json.ts";
import type { JsonObject } from "./types.ts";

const maxNumberLength = 400;

/**
 * Scalars as they arrive: from `parseJson` (whose numbers may be raw JSON values), or as the strings of
 * a query. A numeric string and an integral float are taken for numbers, as upstream does (W-13).
 */
function receivedNumber(value: unknown): number | undefined {
  if (typeof value !== "string") return numberOf(value);
  // The pattern's time grows with the square of a text of digits that is no number in the end.
  if (value.length > maxNumberLength) return undefined;
  return /^\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*$/.test(value) ? Number(value) : undefined;
}

function isNumber(value: unknown): boolean {
  return receivedNumber(value) !== undefined;
}

export const wireNumber = v.pipe(
  v.custom<number>((value) => Number.isFinite(receivedNumber(value)), "Input should be a finite number"),
  v.transform((value) => receivedNumber(value) as number),
);

export const wireInteger = v.pipe(
  v.custom<number>(
    (value) => Number.isSafeInteger(receivedNumber(value)),
    "Input should be an integer between -(2^53 - 1) and 2^53 - 1",
  ),
  v.transform((value) => receivedNumber(value) as number),
);

/** W-12: NaN and the infinities count as null. */
export const wireNumberOrNull = v.pipe(
  v.custom<number | null>((value) => value === null || isNumber(value), "Input should be a number or null"),
  v.transform((value): number | null => {
    const number = value === null ? Number.NaN : (receivedNumber(value) as number);
    return Number.isFinite(number) ? number : null;
  }),
);

/** Kept as it is, whatever it holds. */
export const opaqueObject = v.custom<JsonObject>(isJsonObject, "Input should be a valid object");

/** An object with these members; others are dropped. Arrays and numbers are no objects here, as they are for valibot. */
export function wireObject<const Entries extends v.ObjectEntries>(entries: Entries) {
  return v.pipe(opaqueObject, v.object(entries));
}

/** As `wireObject`, but other members are kept. */
export function wireLooseObject<const Entries extends v.ObjectEntries>(entries: Entries) {
  return v.pipe(opaqueObject, v.looseObject(entries));
}

/** Any names, each with such a value. */
export function wireRecord<const Value extends v.GenericSchema>(value: Value) {
  return v.pipe(opaqueObject, v.record(v.string(), value));
}

const maxListLength = 100_000;

/** Counted before any item is looked at: each may be answered with a reason of its own. */
export function wireList<const Item extends v.GenericSchema>(item: Item) {
  const isShort = (list: unknown) => !Array.isArray(list) || list.length <= maxListLength;
  const sentence = `List should have at most ${maxListLength} items`;
  return v.pipe(v.custom<unknown[]>(isShort, sentence), v.array(item));
}
