import { expect, test } from "bun:test";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { cacheFolder } from "../src/cache-folder.ts";
import { createRunFolder } from "../src/run-folder.ts";
import { temporaryFolder } from "./helpers/temporary-folder.ts";

const folder = temporaryFolder();
const day = new Date("2026-03-04T10:00:00Z");

test("a second run in the same folder gets a folder beside the first and touches nothing in it", () => {
  const first = createRunFolder(join(folder, "runs"), day);
  writeFileSync(join(first.path, "report.json"), "kept");
  const second = createRunFolder(join(folder, "runs"), day);
  expect(first.name).toBe("2026-03-04-1");
  expect(second.name).toBe("2026-03-04-2");
  expect(existsSync(join(first.path, "report.json"))).toBe(true);
  expect([second.models, second.logs, second.work].every((path) => existsSync(path))).toBe(true);
});

test("runs that start at the same moment never share a folder", async () => {
  const program = join(folder, "make.ts");
  writeFileSync(
    program,
    `import { createRunFolder } from ${JSON.stringify(join(import.meta.dir, "../src/run-folder.ts"))};
     console.log(createRunFolder(${JSON.stringify(join(folder, "many"))}, new Date("2026-03-04")).name);`,
  );
  const runs = Array.from({ length: 4 }, () => Bun.spawn([process.execPath, program], { stdout: "pipe" }));
  const names = await Promise.all(runs.map((run) => new Response(run.stdout).text()));
  expect(new Set(names).size).toBe(4);
});

test("a file in the way of the runs folder is named", () => {
  writeFileSync(join(folder, "file"), "");
  expect(() => createRunFolder(join(folder, "file"), day)).toThrow(join(folder, "file"));
});

test("the cache is where the setting, XDG_CACHE_HOME or the home folder says", () => {
  expect(cacheFolder("/x/y", {})).toBe("/x/y");
  expect(cacheFolder(undefined, { XDG_CACHE_HOME: "/c" })).toBe("/c/agl");
  expect(cacheFolder(undefined, {})).toEndWith("/.cache/agl");
});
