import { rewriteJson } from "./json-strings.ts";

/**
 * JavaScript lists the members of an object that are named by integers first, in numeric order,
 * whatever order they were given in. A mark in front of such a name keeps its place.
 */

/** Random, so that no text can hold it by accident or on purpose. */
const mark = `order-${crypto.randomUUID()}:`;

const integerName = /"(?:0|[1-9]\d{0,9})"\s*:/;
const integer = /^"(?:0|[1-9]\d{0,9})"$/;

/** The JSON text with marked names, or undefined when it needs none. */
export function markKeys(text: string): string | undefined {
  if (!integerName.test(text)) return undefined;
  return rewriteJson(
    text,
    (quoted, isName) => (isName && integer.test(quoted) ? `"${mark}${quoted.slice(1)}` : quoted),
    (rest) => rest,
  );
}

export function unmarkKeys(text: string): string {
  return text.includes(mark) ? text.replaceAll(mark, "") : text;
}
