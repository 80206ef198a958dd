import { describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { findUv, needUv } from "../../src/engine/uv.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

/** The pinned set of the CUDA profile against the package index. */
const uv = needUv(findUv());
const requirements = join(import.meta.dir, "..", "..", "trainer", "requirements");
const limitMs = 300_000;

/** Without find-links and constraints of this machine, which would put other builds into it. */
function run(args: string[]) {
  const kept = Object.entries(process.env).filter(([name]) => !/^(PIP_|UV_(?!CACHE_DIR$))/.test(name));
  const { exitCode, stderr } = Bun.spawnSync([uv, "pip", ...args, "--no-config"], {
    cwd: temporaryFolder(),
    env: Object.fromEntries(kept),
    stdout: "ignore",
    stderr: "pipe",
  });
  return { exitCode, said: stderr.toString() };
}

describe.each(["3.11", "3.12", "3.13"])("for Python %s", (version) => {
  test(
    "every package has a wheel for x86-64 Linux",
    () => {
      const { exitCode, said } = run([
        "install",
        "--dry-run",
        "--require-hashes",
        "--no-deps",
        "--only-binary=:all:",
        `--python-version=${version}`,
        "--python-platform=x86_64-manylinux_2_31",
        `--target=${temporaryFolder()}`,
        `--requirements=${join(requirements, "cuda.txt")}`,
      ]);
      expect(said).toMatch(/Would install 22\d packages/);
      expect(said).toContain("+ torch==2.11.0\n");
      expect(exitCode).toBe(0);
    },
    limitMs,
  );
});

test(
  "resolving again gives the same versions, with all hashes that are pinned",
  () => {
    const output = join(temporaryFolder(), "cuda.txt");
    const pinned = readFileSync(join(requirements, "cuda.txt"), "utf8");
    // uv takes the versions of this file where they still resolve; hashes it would take as well, unasked.
    writeFileSync(output, pinned.replace(/ \\$/gm, "").replace(/^ .*\n/gm, ""));
    const { exitCode, said } = run([
      "compile",
      join(requirements, "cuda.in"),
      "--universal",
      "--python-version=3.11",
      "--generate-hashes",
      "--no-header",
      "--no-annotate",
      `--output-file=${output}`,
    ]);
    expect(exitCode, said).toBe(0);
    const lines = (text: string) => text.replaceAll(" \\", "").split("\n");
    const resolved = new Set(lines(readFileSync(output, "utf8")));
    expect(lines(pinned).filter((line) => !resolved.has(line))).toEqual([]);
  },
  limitMs,
);
