import type { GpuPlan } from "./gpu-plan.ts";

/** vLLM's flags for a GPU, but for the length of the context. */
export function gpuArguments({ utilization, quantization }: GpuPlan): string[] {
  return [
    "--gpu-memory-utilization",
    String(utilization),
    ...(quantization === "none" ? [] : ["--quantization", quantization]),
    // Frees the GPU for the trainer without a restart.
    "--enable-sleep-mode",
  ];
}
