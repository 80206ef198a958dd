import { AglError } from "../errors.ts";
import { childEnvironment } from "./child-environment.ts";

export type Profile = "cpu" | "cuda";

/**
 * `auto` takes the GPU when there is one and an environment for it was named; without either it is the CPU.
 */
export function chooseProfile(configured: "auto" | Profile, python: string | undefined): Profile {
  if (configured === "cpu") return "cpu";
  if (configured === "cuda") {
    if (!hasGpu()) {
      throw new AglError("environment", "profile cuda: nvidia-smi finds no GPU", {
        remedy: "use --profile cpu, or check the driver with `nvidia-smi`",
      });
    }
    if (python === undefined) {
      throw new AglError("environment", "profile cuda: no Python environment is named", {
        remedy: "set AGL_PYTHON to the Python of an environment with vLLM and Unsloth, or use --profile cpu",
      });
    }
    return "cuda";
  }
  return python !== undefined && hasGpu() ? "cuda" : "cpu";
}

function hasGpu(): boolean {
  try {
    const found = Bun.spawnSync(["nvidia-smi", "-L"], {
      env: childEnvironment(),
      timeout: 10_000,
      stdout: "pipe",
      stderr: "ignore",
    });
    return found.success && found.stdout.toString().includes("GPU ");
  } catch {
    return false;
  }
}
