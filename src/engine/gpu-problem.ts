import type { Gpu, GpuAnswer } from "./gpu.ts";
import type { ModelProblem } from "./model-weights.ts";
import type { ProfileSetting } from "./profile.ts";

/** torch 2.11 is built for CUDA 13.0, which older drivers do not run. */
const oldestDriver = 580;
/** Older GPUs do not calculate in bfloat16. */
const oldestCapability = 8;

/** What keeps a GPU from being used; none at all is one only for `cuda`. */
export function gpuProblem(configured: ProfileSetting, answer: GpuAnswer): ModelProblem | undefined {
  if (answer.kind === "absent") {
    if (configured !== "cuda") return undefined;
    return {
      message: "nvidia-smi finds no GPU",
      remedy: "use --profile cpu, or install the GPU's driver and check it with `nvidia-smi`",
    };
  }
  if (answer.kind === "failed") {
    return {
      message: `nvidia-smi fails: ${answer.message}`,
      remedy:
        "check the driver with `nvidia-smi` (a restart helps after an update of it), or use --profile cpu",
    };
  }
  return tooOld(answer.gpus[0]);
}

function tooOld({ name, driver, capability }: Gpu): ModelProblem | undefined {
  if (Number.parseInt(driver, 10) < oldestDriver) {
    return {
      message: `driver ${driver} of ${name} is too old: CUDA 13.0, which torch is built for, needs ${oldestDriver} or later`,
      remedy: `update the driver to ${oldestDriver} or later, or use --profile cpu`,
    };
  }
  if (capability !== undefined && capability < oldestCapability) {
    return {
      message: `${name} is too old: its compute capability is ${capability.toFixed(1)}, and training in bfloat16 needs ${oldestCapability}.0 or later`,
      remedy: "use a newer GPU (Ampere or later), or --profile cpu",
    };
  }
  return undefined;
}
