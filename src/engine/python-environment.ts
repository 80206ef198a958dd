import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { AglError, messageOf } from "../errors.ts";
import { checkDisk } from "./environment-failure.ts";
import { holdExclusively } from "./exclusive-file.ts";
import type { Profile } from "./profile.ts";
import {
  checkImports,
  createVenv,
  type EnvironmentPlan,
  findPython,
  install,
  type InstallOptions,
  pythonOf,
} from "./python-install.ts";
import { needUv } from "./uv.ts";

export interface EnvironmentOptions extends InstallOptions {
  profile: Profile;
  /** Folder on disk with `{profile}.txt`, the pinned set. */
  requirementsFolder: string;
  cacheFolder: string;
  /** As `findUv` found it; needed only when the environment has to be made. */
  uv: string | undefined;
  /** Free space that making one takes. */
  neededBytes?: number;
}

export interface PythonEnvironment {
  python: string;
  folder: string;
  created: boolean;
}

const marker = ".complete";
/** Free space that making an environment takes, with what uv caches. */
export const environmentBytes: Record<Profile, number> = { cpu: 6e9, cuda: 12e9 };
const waitLimitMs = 3_600_000;

/**
 * The pinned Python environment of a profile, made when it is missing. It is keyed by its content and appears under its
 * name only when its imports work; of several starts at once one makes it and the others wait.
 */
export async function ensureEnvironment(options: EnvironmentOptions): Promise<PythonEnvironment> {
  const plan = planOf(options);
  const ready = findReady(plan);
  if (ready !== undefined) return { ...ready, created: false };
  makeParent(plan.parent);
  const lock = await holdExclusively(join(plan.parent, `${plan.name}.lock`), {
    signal: options.signal,
    timeoutMs: waitLimitMs,
    onWait: (holder) =>
      options.onProgress(
        `python: waiting for another agl${holder === undefined ? "" : ` (pid ${holder})`} that is making the environment`,
      ),
  });
  try {
    const madeMeanwhile = findReady(plan);
    if (madeMeanwhile !== undefined) return { ...madeMeanwhile, created: false };
    return { ...(await make(plan, options)), created: true };
  } finally {
    lock.release();
  }
}

/** The pinned environment of a profile, when it was made already. */
export function findEnvironment(
  options: Pick<EnvironmentOptions, "profile" | "requirementsFolder" | "cacheFolder">,
): { python: string; folder: string } | undefined {
  return findReady(planOf(options));
}

function makeParent(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true });
  } catch (error) {
    throw new AglError(
      "environment",
      `the folder of Python environments cannot be made: ${messageOf(error)}`,
      {
        remedy: "name another folder with --cache",
      },
    );
  }
}

function planOf({
  profile,
  requirementsFolder,
  cacheFolder,
}: Pick<EnvironmentOptions, "profile" | "requirementsFolder" | "cacheFolder">): EnvironmentPlan {
  const requirements = join(requirementsFolder, `${profile}.txt`);
  if (!existsSync(requirements)) {
    throw new AglError("environment", `profile ${profile}: there is no pinned set of packages for it`, {
      remedy: "set AGL_PYTHON to the Python of an environment that has them, or use --profile cpu",
    });
  }
  const text = readFileSync(requirements, "utf8");
  const key = new Bun.CryptoHasher("sha256")
    .update(`${process.platform} ${process.arch}\n${text}`)
    .digest("hex");
  return {
    profile,
    parent: join(cacheFolder, "environments"),
    name: `${profile}-${key.slice(0, 12)}`,
    requirements,
    text,
  };
}

function findReady(plan: EnvironmentPlan): { python: string; folder: string } | undefined {
  if (!existsSync(plan.parent)) return undefined;
  const folder = readdirSync(plan.parent)
    .filter((name) => name.startsWith(`${plan.name}-py`))
    .map((name) => join(plan.parent, name))
    // A Python that was uninstalled leaves a link to nothing.
    .find((path) => existsSync(join(path, marker)) && existsSync(pythonOf(path)));
  return folder === undefined ? undefined : { python: pythonOf(folder), folder };
}

async function make(
  plan: EnvironmentPlan,
  options: EnvironmentOptions,
): Promise<{ python: string; folder: string }> {
  const uv = needUv(options.uv);
  await removeLeftovers(plan);
  checkDisk(plan.parent, options.neededBytes ?? environmentBytes[options.profile]);
  const base = await findPython(uv, plan, options);
  const folder = join(plan.parent, `${plan.name}-py${base.version}`);
  const temporary = join(plan.parent, `${plan.name}.making-${process.pid}`);
  const started = Date.now();
  options.onProgress(
    `python: making the environment with Python ${base.version} (once; some minutes when nothing is cached)`,
  );
  try {
    await createVenv(uv, base.path, temporary, plan, options);
    await install(uv, temporary, plan, options);
    await checkImports(temporary, plan, options);
    writeFileSync(join(temporary, marker), `${new Date().toISOString()}\n`);
    await rm(folder, { recursive: true, force: true });
    renameSync(temporary, folder);
  } catch (error) {
    await removeQuietly(temporary);
    throw error;
  }
  options.onProgress(`python: environment ready after ${Math.round((Date.now() - started) / 1000)} s`);
  return { python: pythonOf(folder), folder };
}

/** The lock is held, so whoever was making these is dead. */
async function removeLeftovers(plan: EnvironmentPlan): Promise<void> {
  for (const name of readdirSync(plan.parent)) {
    if (name.startsWith(`${plan.name}.making-`)) await removeQuietly(join(plan.parent, name));
  }
}

async function removeQuietly(folder: string): Promise<void> {
  try {
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  } catch {
    // A dying uv may still write into it; the next making removes it.
  }
}
