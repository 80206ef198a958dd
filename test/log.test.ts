import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "./helpers/temporary-folder.ts";

const folder = temporaryFolder();
const log = join(import.meta.dir, "..", "src", "log.ts");

/** Runs a piece of code with a logger whose clock it moves, and returns what came out on stderr and in the file. */
function logged(code: string): { stderr: string[]; file: string[] } {
  const file = join(folder, "log");
  const child = Bun.spawnSync([
    process.execPath,
    "-e",
    `import { createLogger } from ${JSON.stringify(log)};
     let time = 0;
     const log = createLogger("room", { level: "warning", file: ${JSON.stringify(file)} }, () => time);
     ${code}`,
  ]);
  const lines = (text: string) => text.split("\n").filter((line) => line !== "");
  return { stderr: lines(child.stderr.toString()), file: lines(readFileSync(file, "utf8")) };
}

// A full disk wrote 2,191 lines in ten minutes.
test("a warning that comes again and again is shown once in ten seconds, with how many were not, and kept whole in the file", () => {
  const { stderr, file } = logged(`
    for (let index = 0; index < 25; index++, time += 1_000) log.warning("full", { index });
    log.warning("something else");
    log.info("not asked for");`);
  expect(stderr.map((line) => line.replace(/^\S+ warning room {5}/, ""))).toEqual([
    "full index=0",
    "full index=10 not_shown=9",
    "full index=20 not_shown=9",
    "something else",
  ]);
  expect(file).toHaveLength(27);
});

test("what a field holds neither steers the terminal nor begins a line of its own", () => {
  const { stderr } = logged(`
    log.warning("refused", { error: "a\\u001b[2Jb\\u0085c\\n12:00:00.000 error   room     forged", path: "größe\\tx" });`);
  expect(stderr.map((line) => line.replace(/^\S+ warning/, "warning"))).toEqual([
    "warning room     refused error=a\\x1b[2Jb\\x85c",
    "    12:00:00.000 error   room     forged path=größe\tx",
  ]);
});
