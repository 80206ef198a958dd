import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/**
 * Sums what the suites reported into the line `N passed, N failed[, N skipped]` and exits with 1 when anything failed
 * or a suite broke without naming a failed test.
 */
const folder = process.argv[2] ?? ".tools/results";
let passed = 0;
let failed = 0;
let skipped = 0;

for (const name of readdirSync(folder).filter((file) => file.endsWith(".xml"))) {
  const counts = junitCounts(readFileSync(join(folder, name), "utf8"));
  console.log(
    `${name.replace(".xml", "")}: ${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`,
  );
  passed += counts.passed;
  failed += counts.failed;
  skipped += counts.skipped;
}
for (const line of linesOf("checks")) {
  const [good, bad] = line.split(" ").map(Number);
  passed += good ?? 0;
  failed += bad ?? 0;
}
for (const suite of linesOf("broken")) {
  const file = join(folder, `${suite}.xml`);
  const named = existsSync(file) && junitCounts(readFileSync(file, "utf8")).failed > 0;
  if (!named) failed += 1;
  console.log(`${suite}: ended with an error`);
}
console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`);
process.exit(failed > 0 || passed === 0 ? 1 : 0);

function linesOf(name: string): string[] {
  const file = join(folder, name);
  return existsSync(file) ? readFileSync(file, "utf8").split("\n").filter(Boolean) : [];
}

/** From the root element: Bun writes `<testsuites>`, pytest one `<testsuite>` inside it. */
function junitCounts(xml: string): { passed: number; failed: number; skipped: number } {
  const root = /<testsuites\b[^>]*\btests=[^>]*>/.exec(xml)?.[0] ?? /<testsuite\b[^>]*>/.exec(xml)?.[0] ?? "";
  const attribute = (name: string) => Number(new RegExp(`\\b${name}="(\\d+)"`).exec(root)?.[1] ?? 0);
  const bad = attribute("failures") + attribute("errors");
  const left = attribute("skipped");
  return { passed: attribute("tests") - bad - left, failed: bad, skipped: left };
}
