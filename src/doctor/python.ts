import { existsSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as v from "valibot";
import { childEnvironment } from "../engine/child-environment.ts";
import { describeExit } from "../engine/child.ts";
import type { Profile } from "../engine/profile.ts";
import { findPython } from "../engine/python-install.ts";
import { causeOf, runProgram } from "../engine/run-program.ts";
import { findUv } from "../engine/uv.ts";
import { AglError } from "../errors.ts";
import { silentLogger } from "../log.ts";
import { type Finding, ok, problem, warning } from "./check.ts";
import { compareVersions, namesToAsk, testedVersions } from "./versions.ts";

const shortLimitMs = 20_000;
const askVersions = `
import importlib.metadata as metadata, json, platform, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps({"python": platform.python_version(), "versions": found}))
`;
const answerSchema = v.object({ python: v.string(), versions: v.record(v.string(), v.string()) });
const oldestPython = 11;

/** The uv that makes the environment and fetches tools; `needed` when nothing works without it. */
export async function checkUv(
  configured: string | undefined,
  needed: boolean,
  signal: AbortSignal,
): Promise<Finding> {
  const uv = findUv(configured === undefined ? {} : { path: configured });
  const remedy = "install uv (`pip install uv`), or name its program with AGL_UV";
  if (uv === undefined) {
    const message = "uv was not found on PATH";
    return needed ? problem(message, remedy) : warning(message, remedy);
  }
  const { exit, stdout } = await run([uv, "--version"], signal);
  if (exit.code !== 0) return problem(`${uv} does not run (${describeExit(exit)})`, remedy);
  return ok(`${stdout[0]?.trim() ?? "uv"} (${uv})`);
}

/** The Python from which the pinned environment would be made. */
export async function checkBasePython(uv: string | undefined, signal: AbortSignal): Promise<Finding> {
  if (uv === undefined) return warning("not looked for, as uv was not found", "install uv first");
  const plan = { profile: "cpu" as const, parent: tmpdir(), name: "", requirements: "", text: "" };
  const { path, version } = await findPython(uv, plan, { log: silentLogger, onProgress: () => {}, signal });
  return ok(`Python ${version} (${path})`);
}

/** Version and packages of an environment against the set that was tested for the profile. */
export async function checkVersions(
  python: string,
  profile: Profile,
  requirementsFolder: string,
  signal: AbortSignal,
): Promise<Finding[]> {
  const tested = testedVersions(readRequirements(profile, requirementsFolder));
  const asked = await run([python, "-c", askVersions, ...namesToAsk(tested)], signal);
  const answer = v.safeParse(answerSchema, parseJson(asked.stdout.at(-1)));
  if (asked.exit.code !== 0 || !answer.success) {
    throw new AglError("environment", `${python} does not run: ${causeOf(asked, asked.stderr)}`, {
      remedy: "name the python file of an environment that works, or leave it out and agl makes one",
    });
  }
  const [major = 0, minor = 0] = answer.output.python.split(".").map(Number);
  const old =
    major === 3 && minor >= oldestPython
      ? []
      : [
          problem(
            `Python ${answer.output.python} is too old`,
            `use Python 3.${oldestPython} or later for the environment`,
          ),
        ];
  return [...old, ...compareVersions(answer.output.versions, tested)];
}

/** The pinned set, or for a profile without one the versions that were tried. */
function readRequirements(profile: Profile, folder: string): string {
  const file = [`${profile}.txt`, `${profile}.in`].map((name) => join(folder, name)).find(existsSync);
  return file === undefined ? "" : readFileSync(file, "utf8");
}

function parseJson(line: string | undefined): unknown {
  try {
    return JSON.parse(line ?? "");
  } catch {
    return undefined;
  }
}

function run(command: string[], signal: AbortSignal) {
  return runProgram(command, { cwd: tmpdir(), env: childEnvironment(), signal, timeoutMs: shortLimitMs });
}
