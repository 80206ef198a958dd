import { accessSync, constants, existsSync, statfsSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { GpuAnswer } from "../engine/gpu.ts";
import { gpuProblem } from "../engine/gpu-problem.ts";
import type { MachineMemory } from "../engine/machine-memory.ts";
import { readableSize } from "../engine/model-memory.ts";
import { describePortOwner, isPortFree } from "../engine/port-owner.ts";
import type { Profile, ProfileSetting } from "../engine/profile.ts";
import { flagOf } from "../settings.ts";
import { type Finding, ok, problem, warning } from "./check.ts";

/** Of a server and a trainer of a model of no size, on the CPU. */
const smallestMemoryBytes = 4.5e9;

export function checkGpu(configured: ProfileSetting, profile: Profile, answer: GpuAnswer): Finding {
  const fault = gpuProblem(configured, answer);
  if (fault !== undefined) {
    const message = `profile ${configured}: ${fault.message}`;
    return configured === "cpu" ? warning(fault.message, fault.remedy) : problem(message, fault.remedy);
  }
  if (answer.kind !== "found") return ok("no NVIDIA GPU is found (nvidia-smi): profile cpu");
  const [{ name, driver, totalBytes, freeBytes }, ...others] = answer.gpus;
  const more = others.length === 0 ? "" : ` and ${others.length} more`;
  const found = `${name}${more}, driver ${driver}, ${readableSize(freeBytes)} of ${readableSize(totalBytes)} free`;
  if (profile === "cuda" && freeBytes < totalBytes / 2)
    return warning(`${found}: others use it`, "end what `nvidia-smi` lists on it");
  return ok(`${found}: profile ${profile}`);
}

export function checkMemory(profile: Profile, { freeBytes, totalBytes }: MachineMemory): Finding {
  const found = `${readableSize(freeBytes)} of ${readableSize(totalBytes)} free`;
  if (profile === "cuda" || freeBytes >= smallestMemoryBytes) return ok(found);
  return warning(
    `${found}; serving and training take at least ${readableSize(smallestMemoryBytes)}`,
    "end other programs, or use a larger machine",
  );
}

/** A port that nobody chose may be taken: a run then uses another one, and only a part that is started alone does not. */
export function checkPort(setting: string, port: number | undefined, isChosen: boolean): Finding {
  if (port === undefined) return ok(`${setting}: none, a private socket is used`);
  if (isPortFree(port)) return ok(`${setting}: port ${port} is free`);
  const taken = `${setting}: port ${port} is taken by ${describePortOwner(port)}`;
  const remedy = `stop that process, or choose another port with ${flagOf(setting)}`;
  return isChosen ? problem(taken, remedy) : warning(`${taken}; a run uses another one`, remedy);
}

/** Whether a folder, which may not be there yet, can be written and has so much space. */
export function checkSpace(what: string, folder: string, neededBytes: number, flag: string): Finding {
  const existing = nearestExisting(resolve(folder));
  try {
    accessSync(existing, constants.W_OK | constants.X_OK);
  } catch {
    return problem(`${what}: ${existing} cannot be written`, `name another folder with ${flag}`);
  }
  const { bavail, bsize } = statfsSync(existing);
  const free = bavail * bsize;
  const found = `${what}: ${resolve(folder)} has ${readableSize(free)} free`;
  if (free >= neededBytes) return ok(found);
  return problem(
    `${found}, and about ${readableSize(neededBytes)} are needed`,
    `free some space, or name another folder with ${flag}`,
  );
}

function nearestExisting(folder: string): string {
  let at = folder;
  while (!existsSync(at) && dirname(at) !== at) at = dirname(at);
  return at;
}
