import type { Config } from "../config.ts";
import type { Gpu } from "../engine/gpu.ts";
import type { GpuUse } from "../engine/gpu-plan.ts";

/** The GPU with what was configured for it. */
export function gpuUse({ totalBytes, freeBytes }: Gpu, config: Config): GpuUse {
  return {
    totalBytes,
    freeBytes,
    utilization: config["engine.gpu_memory_utilization"],
    quantization: config["engine.quantization"],
    exactLength: config["engine.max_model_len"] !== undefined,
  };
}
