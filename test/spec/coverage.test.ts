import { readFileSync } from "node:fs";
import { expect, test } from "bun:test";

const folder = new URL("../", import.meta.url).pathname;
const tests = [...new Bun.Glob("**/*.{test,real}.ts").scanSync(folder)].filter(
  (path) => !path.startsWith("spec/"),
);

/** Pages that upstream's framework adds by itself; here there are none. */
const ofUpstreamOnly = ["C-4"];

/** The rules of the protocol: `**W-1**` in a list, `| T-1 |` in the table of traps. */
function rulesOf(document: string): string[] {
  return [...document.matchAll(/(?:\*\*|^\| )([A-Z]-\d+)(?:\*\*| +\|)/gm)].map((match) => match[1]!);
}

/** Named one by one, with a part such as `S-4.3`, or as a range such as `Q-1 to Q-6`. */
function rulesNamed(comment: string): string[] {
  const single = [...comment.matchAll(/\b([A-Z]-\d+)\b/g)].map((match) => match[1]!);
  const ranges = [...comment.matchAll(/\b([A-Z])-(\d+) to \1-(\d+)\b/g)].flatMap(([, letter, first, last]) =>
    Array.from(
      { length: Number(last) - Number(first) + 1 },
      (_, index) => `${letter}-${Number(first) + index}`,
    ),
  );
  return [...single, ...ranges];
}

function commentsOf(path: string): string[] {
  return readFileSync(folder + path, "utf8").match(/\/\/.*$|\/\*[\s\S]*?\*\//gm) ?? [];
}

test("every rule of the protocol is named by a test", () => {
  const rules = rulesOf(readFileSync(`${folder}spec/store-api.md`, "utf8"));
  expect(rules.length).toBeGreaterThan(190);
  const named = new Set(tests.flatMap(commentsOf).flatMap(rulesNamed));
  expect(rules.filter((rule) => !named.has(rule) && !ofUpstreamOnly.includes(rule))).toEqual([]);
});
