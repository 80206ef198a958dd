import type { ModelProblem } from "./model-weights.ts";
import type { Profile } from "./profile.ts";

export type ModelPurpose = "serve" | "improve";

export interface ModelShape {
  parameters: number;
  /** Key and value bytes of one token of context; 0 when the configuration does not say. */
  bytesPerToken: number;
}

interface Part {
  name: string;
  bytes: number;
}

export interface MemoryNeed {
  bytes: number;
  /** `weights 8.0 + KV cache 1.1 + programs 2.3 + trainer 25.1 GB` */
  sum: string;
}

/** What the CPU build of vLLM is given for its cache of keys and values. */
export const cpuCacheBytes = 2 ** 30;
/** Measured on the CPU build: four processes that serve a model of no size. */
const cpuServerBytes = 2.3e9;
const cpuTrainerBytes = 1e9;
const cudaServerBytes = 2e9;
const cudaTrainerBytes = 3e9;
/** Left on the GPU by a server that sleeps. */
const cudaAsleepBytes = 0.9e9;

/**
 * About how much memory a model takes at its highest point. On the CPU the server stays while the trainer holds the base
 * in 32 bits and the merged result in 16; on a GPU the server sleeps while the trainer holds the base in 4 bits.
 */
export function memoryNeed(
  profile: Profile,
  purpose: ModelPurpose,
  { parameters, bytesPerToken }: ModelShape,
  contextLength: number,
): MemoryNeed {
  const cache = bytesPerToken * contextLength;
  const weights = { name: "weights", bytes: parameters * 2 };
  if (profile === "cpu") {
    const server = [
      weights,
      { name: "KV cache", bytes: cpuCacheBytes },
      { name: "server", bytes: cpuServerBytes },
    ];
    const trainer = { name: "trainer", bytes: parameters * 6 + cpuTrainerBytes };
    return sumOf(purpose === "improve" ? [...server, trainer] : server);
  }
  const serving = sumOf([
    weights,
    { name: "KV cache", bytes: cache },
    { name: "server", bytes: cudaServerBytes },
  ]);
  const training = sumOf([
    { name: "server asleep", bytes: cudaAsleepBytes },
    { name: "weights in 4 bits", bytes: parameters * 0.6 },
    { name: "trainer", bytes: cudaTrainerBytes },
  ]);
  return purpose === "improve" && training.bytes > serving.bytes ? training : serving;
}

/** What to say when a model does not fit. */
export function memoryShortage(
  profile: Profile,
  need: MemoryNeed,
  availableBytes: number | undefined,
): ModelProblem | undefined {
  if (availableBytes === undefined || need.bytes <= availableBytes) return undefined;
  const memory = profile === "cuda" ? "GPU memory" : "memory";
  return {
    message: `it is too large: ${need.sum} = ${gigabytes(need.bytes)} GB, and ${gigabytes(availableBytes)} GB of ${memory} are free`,
    remedy: "name a smaller model, free some memory, or use a larger machine",
  };
}

/** The longest context whose keys and values fit into the CPU build's cache. */
export function longestCpuContext({ bytesPerToken }: ModelShape): number {
  return bytesPerToken === 0 ? Number.POSITIVE_INFINITY : Math.floor(cpuCacheBytes / bytesPerToken);
}

export function gigabytes(bytes: number): string {
  return (bytes / 1e9).toFixed(1);
}

/** `8.6 MB`, `12.3 GB` */
export function readableSize(bytes: number): string {
  return bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${gigabytes(bytes)} GB`;
}

function sumOf(parts: Part[]): MemoryNeed {
  return {
    bytes: parts.reduce((sum, { bytes }) => sum + bytes, 0),
    sum: `${parts.map(({ name, bytes }) => `${name} ${gigabytes(bytes)}`).join(" + ")} GB`,
  };
}
