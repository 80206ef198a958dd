import { expect, test } from "bun:test";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeScratchFolder } from "../../src/engine/scratch-folder.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const parent = temporaryFolder();

test("what a killed run left behind is removed with the next start, and nobody else's", async () => {
  const gone = Bun.spawn(["true"]);
  await gone.exited;
  const names = {
    dead: `agl-${gone.pid}-abcdef`,
    living: `agl-${process.pid}-abcdef`,
    foreign: "agl-test-abcdef",
  };
  for (const name of Object.values(names)) {
    mkdirSync(join(parent, name));
    writeFileSync(join(parent, name, "socket"), "");
  }
  const scratch = makeScratchFolder(parent);
  expect(existsSync(join(parent, names.dead))).toBe(false);
  expect(existsSync(join(parent, names.living))).toBe(true);
  expect(existsSync(join(parent, names.foreign))).toBe(true);
  writeFileSync(join(scratch.path, "file"), "");
  scratch.remove();
  expect(existsSync(scratch.path)).toBe(false);
});
