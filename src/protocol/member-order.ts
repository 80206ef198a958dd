import { isJsonObject } from "./json.ts";

/**
 * The same value with its members, at every depth, in the order of `pattern`; members that the pattern lacks come last.
 * A schema gives members in its own order, which would change what is written down again.
 */
export function inOrderOf<Value>(pattern: unknown, value: Value): Value {
  return ordered(pattern, value) as Value;
}

function ordered(pattern: unknown, value: unknown): unknown {
  if (pattern === value) return value;
  if (Array.isArray(value) && Array.isArray(pattern)) {
    return value.map((item, index) => ordered(pattern[index], item));
  }
  if (!isJsonObject(value) || !isJsonObject(pattern)) return value;
  const names = new Set([...Object.keys(pattern), ...Object.keys(value)]);
  const members = [...names].filter((name) => Object.hasOwn(value, name));
  return Object.fromEntries(members.map((name) => [name, ordered(pattern[name], value[name])]));
}
