import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const folder = join(import.meta.dir, "..", "..", "trainer", "requirements");
const read = (name: string) => readFileSync(join(folder, name), "utf8");

describe.each(["cpu", "cuda"])("the pinned set of profile %s", (profile) => {
  const entries = read(`${profile}.txt`)
    .trim()
    .split(/\n(?! )/);

  test("has hashes for every package, and no place to get it from", () => {
    expect(entries.length).toBeGreaterThan(100);
    for (const entry of entries) {
      expect(entry).toMatch(/^[a-z0-9][\w.-]*==[^\s;]+( ; [^\\]+)?( \\\n {4}--hash=sha256:[0-9a-f]{64})+$/);
    }
    expect(read(`${profile}.txt`)).not.toContain("://");
  });

  test("holds what it was compiled from", () => {
    const wanted = [...read(`${profile}.in`).matchAll(/^([\w-]+)==(\S+)$/gm)];
    expect(wanted.length).toBeGreaterThan(4);
    for (const [, name, version = ""] of wanted) {
      const found = entries.find((entry) => entry.startsWith(`${name}==`)) ?? "";
      expect(found).toStartWith(`${name}==${version.replace(/\*$/, "")}`);
    }
  });
});
