import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Config } from "../config.ts";
import { childEnvironment } from "../engine/child-environment.ts";
import type { Profile } from "../engine/profile.ts";
import { ensureEnvironment } from "../engine/python-environment.ts";
import { causeOf, runProgram } from "../engine/run-program.ts";
import { findUv } from "../engine/uv.ts";
import { UsageError } from "../errors.ts";
import type { Logger } from "../log.ts";

export interface PythonContext {
  profile: Profile;
  assets: string;
  cache: string;
  log: Logger;
  say: (line: string) => void;
  signal: AbortSignal;
}

const modules: Record<Profile, string[]> = {
  cpu: ["vllm", "torch", "transformers", "datasets", "peft", "trl"],
  cuda: ["vllm", "torch", "transformers", "datasets", "peft", "trl", "unsloth", "bitsandbytes"],
};
const findModules =
  "import importlib.util as u, sys; print('missing:', *[m for m in sys.argv[1:] if u.find_spec(m) is None])";
const checkLimitMs = 60_000;
const remedy = "name the python file of an environment that has them, or leave it out and agl makes one";
const cudaRemedy = `${remedy}; --profile cpu needs no Unsloth`;

/** The Python to serve and train with: the one that was named, or the pinned environment, made when missing. */
export async function preparePython(config: Config, context: PythonContext): Promise<string> {
  const { profile, signal } = context;
  if (config.python !== undefined) return await namedPython(config.python, profile, signal);
  const { python } = await ensureEnvironment({
    profile,
    requirementsFolder: join(context.assets, "trainer", "requirements"),
    cacheFolder: context.cache,
    uv: findUv(config.uv === undefined ? {} : { path: config.uv }),
    log: context.log,
    onProgress: context.say,
    signal,
  });
  return python;
}

/** The absolute path of a Python that was named; refused unless it runs and has what serving and training import. */
export async function namedPython(named: string, profile: Profile, signal: AbortSignal): Promise<string> {
  const found = named.includes("/") ? resolve(named) : Bun.which(named);
  if (found === null || !existsSync(found)) {
    throw new UsageError(`python: ${named} does not exist`, "name the python file of an environment");
  }
  const asked = await runProgram([found, "-c", findModules, ...modules[profile]], {
    cwd: tmpdir(),
    env: childEnvironment(),
    signal,
    timeoutMs: checkLimitMs,
  });
  const missing = asked.stdout
    .find((line) => line.startsWith("missing:"))
    ?.slice("missing:".length)
    .trim();
  if (asked.exit.code !== 0 || missing === undefined) {
    throw new UsageError(`python: ${named} does not work: ${causeOf(asked, asked.stderr)}`, remedy);
  }
  if (missing !== "") {
    throw new UsageError(
      `python: ${named} lacks ${missing.split(" ").join(", ")}`,
      profile === "cuda" ? cudaRemedy : remedy,
    );
  }
  return found;
}
