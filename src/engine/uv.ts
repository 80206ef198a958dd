import { accessSync, constants, readdirSync, statSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";
import { AglError } from "../errors.ts";
import { childEnvironment } from "./child-environment.ts";
import type { Profile } from "./profile.ts";

const remedy = "install uv (`pip install uv`), or name its program with AGL_UV";

/** The uv program: the one that was named, else the first on PATH; undefined when PATH has none. */
export function findUv(
  options: { path?: string; env?: Record<string, string | undefined> } = {},
): string | undefined {
  const { path, env = childEnvironment() } = options;
  if (path !== undefined) {
    if (isProgram(path)) return resolve(path);
    throw new AglError("environment", `uv: ${path} is no program`, { remedy });
  }
  return (env["PATH"] ?? "")
    .split(delimiter)
    .filter((folder) => folder !== "")
    .map((folder) => join(folder, "uv"))
    .find(isProgram);
}

export function needUv(uv: string | undefined): string {
  if (uv !== undefined) return uv;
  throw new AglError("environment", "uv, which makes the Python environment, was not found on PATH", {
    remedy,
  });
}

export interface PackageSource {
  env: Record<string, string>;
  flags: string[];
}

/** Where uv gets a pinned set from. */
export function packageSource(
  profile: Profile,
  requirements: string,
  findLinks: string | undefined,
  environment: Record<string, string | undefined>,
): PackageSource {
  const torchVersion = /^torch==([^\s;]+)/m.exec(requirements)?.[1];
  if (profile === "cpu") return torchSource(torchVersion, findLinks, environment);
  // torch's CUDA build is the index's own; what PIP_FIND_LINKS holds is rather a CPU build, whose hash is another.
  return { env: findLinks === undefined ? {} : { UV_FIND_LINKS: findLinks }, flags: [] };
}

/**
 * Where uv gets torch's CPU build: a find-links folder when one is named and holds it, else PyTorch's own index. Both at
 * once fail without a network.
 */
export function torchSource(
  torchVersion: string | undefined,
  findLinks: string | undefined,
  environment: Record<string, string | undefined>,
): PackageSource {
  const pip = environment["PIP_FIND_LINKS"]?.trim().split(/\s+/).join(",");
  const links = [findLinks, environment["UV_FIND_LINKS"], pip].find(
    (found) => found !== undefined && found !== "",
  );
  const env: Record<string, string> = links === undefined ? {} : { UV_FIND_LINKS: links };
  if (torchVersion === undefined) return { env, flags: [] };
  const held = links?.split(",").some((place) => mayHoldTorch(place, torchVersion)) ?? false;
  return { env, flags: held ? [] : ["--torch-backend", "cpu"] };
}

function mayHoldTorch(place: string, version: string): boolean {
  if (/^https?:/.test(place)) return true;
  try {
    return readdirSync(place.replace(/^file:\/\//, "")).some((name) => name.startsWith(`torch-${version}`));
  } catch {
    return false;
  }
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
