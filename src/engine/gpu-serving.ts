import type { ModelShape } from "./model-memory.ts";

export type Quantization = "none" | "bitsandbytes";

export interface GpuSettings {
  /** Share of the GPU's memory that vLLM takes. */
  utilization: number;
  /** Wanted context, in tokens. */
  maxModelLen: number;
  /** The context is what somebody asked for, and is not shortened. */
  exactLength?: boolean;
  /** Chosen by the arithmetic when unset. */
  quantization?: Quantization | undefined;
}

/** What vLLM's share of a GPU holds. */
export interface Serving {
  quantization: Quantization;
  budgetBytes: number;
  weightBytes: number;
  /** For keys and values; negative when the weights alone are too large. */
  cacheBytes: number;
  /** The longest context whose keys and values fit. */
  longest: number;
}

export const bytesPerParameter: Record<Quantization, number> = {
  none: 2,
  // Linear layers in 4 bits with a scale for every 64 weights; embeddings stay in 16.
  bitsandbytes: 0.7,
};
/** Activations, CUDA graphs and the CUDA context of vLLM. */
export const serverBytes = 2e9;
/** vLLM's cache is made of blocks of so many tokens. */
const blockTokens = 16;

/** In 16 bits when the whole context fits beside them, else in whatever leaves the longest. */
export function chooseServing(gpuMemoryBytes: number, model: ModelShape, settings: GpuSettings): Serving {
  const kinds: Quantization[] =
    settings.quantization === undefined ? ["none", "bitsandbytes"] : [settings.quantization];
  const possible = kinds.map((quantization) =>
    serve(quantization, gpuMemoryBytes * settings.utilization, model),
  );
  return (
    possible.find(({ longest }) => longest >= settings.maxModelLen) ??
    possible.reduce((best, each) => (each.longest >= best.longest ? each : best))
  );
}

function serve(
  quantization: Quantization,
  budgetBytes: number,
  { parameters, bytesPerToken }: ModelShape,
): Serving {
  const weightBytes = parameters * bytesPerParameter[quantization];
  const cacheBytes = budgetBytes - weightBytes - serverBytes;
  return {
    quantization,
    budgetBytes,
    weightBytes,
    cacheBytes,
    longest: longestContext(cacheBytes, bytesPerToken),
  };
}

function longestContext(cacheBytes: number, bytesPerToken: number): number {
  if (cacheBytes <= 0) return 0;
  if (bytesPerToken === 0) return Number.POSITIVE_INFINITY;
  return Math.floor(cacheBytes / (bytesPerToken * blockTokens)) * blockTokens;
}
