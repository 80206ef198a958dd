import { AglError } from "../errors.ts";
import { findGpus, type Gpu, type GpuAnswer } from "./gpu.ts";
import { gpuProblem } from "./gpu-problem.ts";

export type Profile = "cpu" | "cuda";
export type ProfileSetting = "auto" | Profile;

/** `auto` takes the GPU when there is one. */
export function profileFor(configured: ProfileSetting, answer: GpuAnswer): Profile {
  if (configured !== "auto") return configured;
  return answer.kind === "found" ? "cuda" : "cpu";
}

export interface ChosenProfile {
  profile: Profile;
  /** What `cuda` will use. */
  gpu?: Gpu;
}

/** The profile of a run. Stops when its GPU cannot be used: nobody gets the CPU who has a GPU and did not ask for it. */
export async function chooseProfile(
  configured: ProfileSetting,
  signal: AbortSignal,
  find: (signal: AbortSignal) => Promise<GpuAnswer> = findGpus,
): Promise<ChosenProfile> {
  if (configured === "cpu") return { profile: "cpu" };
  const answer = await find(signal);
  const problem = gpuProblem(configured, answer);
  if (problem !== undefined) {
    throw new AglError("environment", `profile ${configured}: ${problem.message}`, {
      remedy: problem.remedy,
    });
  }
  return answer.kind === "found" ? { profile: "cuda", gpu: answer.gpus[0] } : { profile: "cpu" };
}
