import * as v from "valibot";
import { exactNumber, isJsonObject, numberOf, numberText } from "./json.ts";
import type { Attributes, AttributeValue } from "./types.ts";

/**
 * D-9: strings, booleans, numbers, and arrays of one kind of these. Arrays that mix integers and floats
 * become floats, arrays that mix booleans and integers become integers, as Python does.
 */
export const attributesSchema = v.pipe(
  v.custom<Attributes>(
    (value) => isJsonObject(value) && Object.values(value).every(isAttribute),
    "Attributes should be an object of strings, booleans, numbers, or arrays of one kind of these",
  ),
  v.transform(withUniformArrays),
);

/** The value as a span's attribute, its array made uniform; undefined for what is none. */
export function attributeValue(value: unknown): AttributeValue | undefined {
  if (!isAttribute(value)) return undefined;
  return (Array.isArray(value) && isMixed(value) ? uniform(value) : value) as AttributeValue;
}

function isScalar(value: unknown): boolean {
  return typeof value === "string" || typeof value === "boolean" || numberOf(value) !== undefined;
}

function isAttribute(value: unknown): boolean {
  if (!Array.isArray(value)) return isScalar(value);
  const strings = value.filter((item) => typeof item === "string").length;
  return value.every(isScalar) && (strings === 0 || strings === value.length);
}

function withUniformArrays(attributes: Attributes): Attributes {
  const mixed = Object.entries(attributes).filter(([, value]) => Array.isArray(value) && isMixed(value));
  if (mixed.length === 0) return attributes;
  const uniformed = mixed.map(([key, value]) => [key, uniform(value as unknown[])]);
  return { ...attributes, ...Object.fromEntries(uniformed) };
}

function isMixed(values: readonly unknown[]): boolean {
  return new Set(values.map(kindOf)).size > 1;
}

function kindOf(value: unknown): "string" | "boolean" | "integer" | "float" {
  if (typeof value === "string" || typeof value === "boolean") return typeof value as "string" | "boolean";
  return /^-?\d+$/.test(numberText(value) ?? "") ? "integer" : "float";
}

function uniform(values: readonly unknown[]): unknown {
  const floats = values.some((value) => kindOf(value) === "float");
  return values.map((value) => {
    const number = typeof value === "boolean" ? Number(value) : value;
    return floats ? asFloat(number) : number;
  });
}

/** An integer among floats is written as Python writes a float. */
function asFloat(value: unknown): unknown {
  if (kindOf(value) === "float") return value;
  const text = String(numberOf(value));
  return exactNumber(/[.e]/.test(text) ? text : `${text}.0`);
}
