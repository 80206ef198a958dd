import { rewriteJson } from "./json-strings.ts";

/**
 * JavaScript lists the members of an object that are named by integers first, in numeric order,
 * whatever order they were given in. A mark in front of such a name keeps its place. Names that
 * validation would drop, because they mean something to JavaScript, are marked as well.
 */

/** Random, so that no text can hold it by accident or on purpose. */
const mark = `order-${crypto.randomUUID()}:`;

const special = String.raw`"(?:0|[1-9]\d{0,9}|__proto__|prototype|constructor)"`;
const specialName = new RegExp(String.raw`${special}\s*:`);
const wholeSpecial = new RegExp(`^${special}$`);

/** The JSON text with marked names, or undefined when it needs none. */
export function markKeys(text: string): string | undefined {
  if (!specialName.test(text)) return undefined;
  return rewriteJson(
    text,
    (quoted, isName) => (isName && wholeSpecial.test(quoted) ? `"${mark}${quoted.slice(1)}` : quoted),
    (rest) => rest,
  );
}

export function unmarkKeys(text: string): string {
  return text.includes(mark) ? text.replaceAll(mark, "") : text;
}
