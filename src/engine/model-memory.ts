import type { ModelProblem } from "./model-weights.ts";

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

/**
 * About how much memory of the machine a model takes at its highest point on the CPU: the server stays while the trainer
 * holds the base in 32 bits and the merged result in 16.
 */
export function cpuMemoryNeed(purpose: ModelPurpose, { parameters }: ModelShape): MemoryNeed {
  const server = [
    { name: "weights", bytes: parameters * 2 },
    { name: "KV cache", bytes: cpuCacheBytes },
    { name: "server", bytes: cpuServerBytes },
  ];
  const trainer = { name: "trainer", bytes: parameters * 6 + cpuTrainerBytes };
  return sumOf(purpose === "improve" ? [...server, trainer] : server);
}

/** What to say when a model does not fit into the machine's memory. */
export function memoryShortage(
  need: MemoryNeed,
  availableBytes: number | undefined,
): ModelProblem | undefined {
  if (availableBytes === undefined || need.bytes <= availableBytes) return undefined;
  return {
    message: `it is too large: ${need.sum} = ${gigabytes(need.bytes)} GB, and ${gigabytes(availableBytes)} GB of memory are free`,
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
