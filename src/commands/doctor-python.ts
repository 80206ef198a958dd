import { existsSync } from "node:fs";
import { resolve } from "node:path";
import type { Config } from "../config.ts";
import { type Finding, ok } from "../doctor/check.ts";
import { checkBasePython } from "../doctor/python.ts";
import type { Profile } from "../engine/profile.ts";
import { findEnvironment } from "../engine/python-environment.ts";
import { findUv } from "../engine/uv.ts";
import { namedPython } from "./python.ts";

export interface PythonHere {
  python: string | undefined;
  /** What to say about it; nothing when there is no environment to speak of. */
  finding?: Finding;
}

/** The environment that a run would use as it is. */
export async function pythonHere(
  config: Config,
  profile: Profile,
  requirementsFolder: string,
  cache: string,
  signal: AbortSignal,
): Promise<PythonHere> {
  if (config.python !== undefined) {
    const python = await namedPython(config.python, profile, signal);
    return { python, finding: ok(`named: ${python}, with all that serving and training import`) };
  }
  const made = findEnvironment({ profile, requirementsFolder, cacheFolder: cache });
  if (made === undefined) return { python: undefined };
  return { python: made.python, finding: ok(`environment of profile ${profile}: ${made.folder}`) };
}

/**
 * A named Python is asked for its versions also when it lacks something; null when it is not there at all, undefined when
 * none is named or made.
 */
export async function pythonToAsk(
  config: Config,
  environment: () => Promise<PythonHere>,
): Promise<string | undefined | null> {
  try {
    return (await environment()).python;
  } catch {
    const named = config.python ?? "";
    const found = named.includes("/") ? resolve(named) : Bun.which(named);
    return found !== null && existsSync(found) ? found : null;
  }
}

/** The Python that an environment would be made from. */
export async function basePython(config: Config, signal: AbortSignal): Promise<Finding> {
  return checkBasePython(findUv(config.uv === undefined ? {} : { path: config.uv }), signal);
}

export async function isHere(environment: () => Promise<PythonHere>): Promise<boolean> {
  try {
    return (await environment()).python !== undefined;
  } catch {
    // Said by the check of Python.
    return false;
  }
}
