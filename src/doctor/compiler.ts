import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { childEnvironment } from "../engine/child-environment.ts";
import { describeExit } from "../engine/child.ts";
import { runProgram } from "../engine/run-program.ts";
import { type Finding, ok, problem } from "./check.ts";

const askIncludes = "import sysconfig; print(sysconfig.get_paths()['include'])";
const limitMs = 20_000;

/** Triton, with which vLLM and Unsloth make their kernels at run time, compiles C against the headers of Python. */
export async function checkCompiler(
  python: string,
  signal: AbortSignal,
  env: Record<string, string> = childEnvironment(),
): Promise<Finding> {
  const compiler = [env["CC"], "gcc", "clang"]
    .filter((name) => name !== undefined && name !== "")
    .map((name) => Bun.which(name as string, { PATH: env["PATH"] ?? "" }))
    .find((found) => found !== null);
  if (compiler === undefined) {
    return problem(
      "no C compiler is on PATH, and Triton makes the GPU's kernels with one",
      "install one (`apt-get install gcc`), or name it with CC",
    );
  }
  const { exit, stdout } = await runProgram([python, "-c", askIncludes], {
    cwd: tmpdir(),
    env,
    signal,
    timeoutMs: limitMs,
  });
  const folder = stdout.at(-1)?.trim() ?? "";
  if (exit.code !== 0)
    return problem(`${python} does not run: ${describeExit(exit)}`, "see the line of python");
  if (existsSync(join(folder, "Python.h"))) return ok(`${compiler}, with Python's headers in ${folder}`);
  return problem(
    `${folder} holds no Python.h, and Triton compiles the GPU's kernels against it`,
    "install Python's headers (`apt-get install python3-dev`), or a Python that brings them (`uv python install 3.12`)",
  );
}
