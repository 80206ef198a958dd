/**
 * Calls `onString` for each string of a JSON text and `onRest` for what stands between them, and joins
 * the results. A loop, because regular expressions give up inside strings with very many escapes.
 */
export function rewriteJson(
  text: string,
  onString: (quoted: string, isName: boolean) => string,
  onRest: (text: string) => string,
): string {
  const parts: string[] = [];
  let done = 0;
  for (let start = text.indexOf('"'); start !== -1; start = text.indexOf('"', done)) {
    const end = endOfString(text, start);
    parts.push(onRest(text.slice(done, start)));
    parts.push(onString(text.slice(start, end), isFollowedByColon(text, end)));
    done = end;
  }
  parts.push(onRest(text.slice(done)));
  return parts.join("");
}

/** The position after the closing quote; the text's end when there is none. */
function endOfString(text: string, start: number): number {
  for (let quote = text.indexOf('"', start + 1); quote !== -1; quote = text.indexOf('"', quote + 1)) {
    let backslashes = 0;
    while (text[quote - 1 - backslashes] === "\\") backslashes += 1;
    if (backslashes % 2 === 0) return quote + 1;
  }
  return text.length;
}

function isFollowedByColon(text: string, position: number): boolean {
  let next = position;
  while (text[next] === " " || text[next] === "\n" || text[next] === "\r" || text[next] === "\t") next += 1;
  return text[next] === ":";
}
