import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { checkCompiler } from "../../src/doctor/compiler.ts";
import { executable } from "../helpers/executable.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const never = new AbortController().signal;

/** A Python whose headers would lie beside it, and a PATH with these programs on it. */
function machine(programs: string[]) {
  const folder = temporaryFolder();
  for (const name of programs) executable(folder, name, "exit 0");
  const python = executable(folder, "python", `echo ${folder}`);
  return { folder, check: (env = {}) => checkCompiler(python, never, { PATH: folder, ...env }) };
}

test("a compiler with Python's headers is all that Triton needs", async () => {
  const { folder, check } = machine(["clang"]);
  writeFileSync(join(folder, "Python.h"), "");
  expect(await check()).toEqual({
    status: "ok",
    message: `${folder}/clang, with Python's headers in ${folder}`,
  });
});

test("without headers, or without a compiler, it says what to install", async () => {
  const { folder, check } = machine(["gcc"]);
  expect(await check()).toMatchObject({
    status: "problem",
    message: expect.stringContaining(`${folder} holds no Python.h`),
    remedy: expect.stringContaining("python3-dev"),
  });
  const without = machine(["cc-13"]);
  expect(await without.check()).toMatchObject({
    status: "problem",
    remedy: expect.stringContaining("install gcc"),
  });
  writeFileSync(join(without.folder, "Python.h"), "");
  expect((await without.check({ CC: "cc-13" })).status).toBe("ok");
});

test("a Python that does not run is said", async () => {
  const folder = temporaryFolder();
  executable(folder, "gcc", "exit 0");
  const finding = await checkCompiler(executable(folder, "python", "exit 3"), never, { PATH: folder });
  expect(finding.message).toContain("does not run: exit code 3");
});
