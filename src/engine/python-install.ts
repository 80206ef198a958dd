import { join } from "node:path";
import { AglError } from "../errors.ts";
import type { Logger } from "../log.ts";
import { childEnvironment } from "./child-environment.ts";
import { failure, installFailure } from "./environment-failure.ts";
import type { Profile } from "./profile.ts";
import { type ProgramRun, runProgram } from "./run-program.ts";
import { packageSource } from "./uv.ts";

export interface InstallOptions {
  log: Logger;
  /** Lines for the user. */
  onProgress: (line: string) => void;
  signal: AbortSignal;
  /** Folder or URL with wheels, before UV_FIND_LINKS and PIP_FIND_LINKS. */
  findLinks?: string;
  /** Uses only what uv has cached. */
  offline?: boolean;
  /** Modules whose import proves the environment, in processes side by side. */
  imports?: string[][];
}

export interface EnvironmentPlan {
  profile: Profile;
  parent: string;
  /** Of all environments of this content; the version of their Python follows it. */
  name: string;
  requirements: string;
  text: string;
}

const pythonVersions = ["3.11", "3.12", "3.13"];
const installLimitMs = 3_600_000;
const shortLimitMs = 120_000;
const importLimitMs = 600_000;

/**
 * Also writes the byte code of what is really used, on both cores: 14 s against 20 s for `--compile-bytecode`, which
 * compiles everything, and 7 s of imports after it.
 */
const importsOf: Record<Profile, string[][]> = {
  cpu: [
    ["vllm.entrypoints.openai.api_server"],
    ["torch", "transformers", "datasets", "peft", "trl.trainer.sft_trainer"],
  ],
  cuda: [
    ["vllm.entrypoints.openai.api_server"],
    // Unsloth changes the others and has to come first; without a GPU it imports as well.
    ["unsloth", "torch", "transformers", "datasets", "peft", "trl.trainer.sft_trainer", "bitsandbytes"],
  ],
};

export async function findPython(
  uv: string,
  plan: EnvironmentPlan,
  options: InstallOptions,
): Promise<{ path: string; version: string }> {
  for (const wanted of pythonVersions) {
    const found = await run(
      [uv, "python", "find", "--no-project", "--no-python-downloads", wanted],
      plan,
      options,
    );
    const path = found.stdout[0]?.trim();
    if (found.exit.code !== 0 || path === undefined || path === "") continue;
    const asked = await run(
      [path, "-I", "-c", "import platform; print(platform.python_version())"],
      plan,
      options,
    );
    const version = asked.stdout[0]?.trim();
    if (asked.exit.code === 0 && version !== undefined) return { path, version };
  }
  const any = await run([uv, "python", "find", "--no-project", "--no-python-downloads"], plan, options);
  const other = any.stdout[0] === undefined ? "none was found" : `only ${any.stdout[0].trim()} was found`;
  throw new AglError(
    "environment",
    `Python ${pythonVersions.slice(0, -1).join(", ")} or ${pythonVersions.at(-1)} is needed and ${other}`,
    {
      remedy: "install one of them, for example with `uv python install 3.11`",
    },
  );
}

export async function createVenv(
  uv: string,
  python: string,
  temporary: string,
  plan: EnvironmentPlan,
  options: InstallOptions,
): Promise<void> {
  // Relocatable, as it gets its name only when it is finished.
  const command = [uv, "venv", "--no-project", "--no-config", "--relocatable", "--python", python, temporary];
  const made = await run(command, plan, options);
  if (made.exit.code !== 0) throw failure("the Python environment could not be created", made);
}

export async function install(
  uv: string,
  temporary: string,
  plan: EnvironmentPlan,
  options: InstallOptions,
): Promise<void> {
  const source = packageSource(plan.profile, plan.text, options.findLinks, childEnvironment());
  const command = [
    uv,
    "pip",
    "install",
    "--no-progress",
    `--python=${pythonOf(temporary)}`,
    "--require-hashes",
    // What the overrides leave out has no hashes, so the set must not be resolved again.
    "--no-deps",
    `--requirements=${plan.requirements}`,
    ...source.flags,
    ...(options.offline ? ["--offline"] : []),
  ];
  const packages = plan.text.match(/^[A-Za-z0-9][^\s=]*==/gm)?.length ?? 0;
  options.onProgress(`python: installing from ${packages} pinned packages`);
  const onLine = (line: string) => {
    options.log.debug(line);
    if (isWorthShowing(line)) options.onProgress(`python: ${line.trim()}`);
  };
  const done = await runProgram(command, {
    cwd: plan.parent,
    env: childEnvironment(source.env),
    signal: options.signal,
    timeoutMs: installLimitMs,
    onLine,
  });
  if (done.exit.code !== 0) throw installFailure(done, plan.parent);
}

/** Large downloads and the ends of uv's phases; a set has dozens of small ones. */
function isWorthShowing(line: string): boolean {
  const size = /^\s*Downloading \S+ \(([\d.]+)(MiB|GiB)\)/.exec(line);
  if (size !== null) return size[2] === "GiB" || Number(size[1]) >= 20;
  return /^\s*(Building|Prepared|Installed)\b/.test(line);
}

export async function checkImports(
  temporary: string,
  plan: EnvironmentPlan,
  options: InstallOptions,
): Promise<void> {
  const groups = options.imports ?? importsOf[plan.profile];
  options.onProgress("python: checking that everything imports");
  const checks = groups.map((modules) =>
    runProgram([pythonOf(temporary), "-c", `import ${modules.join(", ")}`], {
      cwd: plan.parent,
      env: childEnvironment({ HF_HUB_OFFLINE: "1", VLLM_NO_USAGE_STATS: "1" }),
      signal: options.signal,
      timeoutMs: importLimitMs,
    }),
  );
  // All of them have ended before the folder they read from is removed.
  await Promise.allSettled(checks);
  const failed = (await Promise.all(checks)).find(({ exit }) => exit.code !== 0);
  if (failed !== undefined) throw failure("the Python environment was installed but does not work", failed);
}

function run(command: string[], plan: EnvironmentPlan, options: InstallOptions): Promise<ProgramRun> {
  return runProgram(command, {
    cwd: plan.parent,
    env: childEnvironment(),
    signal: options.signal,
    timeoutMs: shortLimitMs,
    onLine: (line) => options.log.debug(line),
  });
}

export function pythonOf(folder: string): string {
  return join(folder, "bin", "python");
}
