import {
  bytesPerParameter,
  chooseServing,
  type GpuSettings,
  type Quantization,
  serverBytes,
  type Serving,
} from "./gpu-serving.ts";
import { gigabytes, type ModelPurpose, type ModelShape } from "./model-memory.ts";
import type { ModelProblem } from "./model-weights.ts";

export interface GpuPlanOptions {
  gpuMemoryBytes: number;
  /** What nobody else uses of it; all of it when unset. */
  freeBytes?: number;
  model: ModelShape;
  settings: GpuSettings;
  /** To be trained, too, unless it is `serve`. */
  purpose?: ModelPurpose;
}

export interface GpuPlan {
  utilization: number;
  maxModelLen: number;
  quantization: Quantization;
  fits: boolean;
  /** The arithmetic, in lines. */
  explanation: string[];
  /** What became smaller than wanted, and how to get more. */
  notes: string[];
  /** Why it does not fit, and what to set. */
  problem?: ModelProblem;
}

/** A GPU and what is set for it. */
export interface GpuUse extends Omit<GpuSettings, "maxModelLen"> {
  totalBytes: number;
  freeBytes: number;
}

/** Adapter, optimiser, activations and the CUDA context of the trainer. */
const trainerBytes = 3e9;
/** Left on the GPU by a server that sleeps. */
const asleepBytes = 0.9e9;
/** A shorter context is of no use to agents. */
const shortestContext = 2_048;
/** More than this fails at a start as soon as somebody else uses the GPU. */
const highestUtilization = 0.9;

/**
 * What vLLM is told on a GPU of this size: the weights in 16 bits when the whole context fits beside them, else in 4; the
 * context is shortened only when that does not suffice. Training comes after, while the server sleeps.
 */
export function planGpu(options: GpuPlanOptions): GpuPlan {
  const { settings } = options;
  const serving = servingOf(options);
  const problem = trainingProblem(options) ?? servingProblem(options);
  return {
    utilization: settings.utilization,
    maxModelLen: settings.exactLength
      ? settings.maxModelLen
      : Math.min(settings.maxModelLen, serving.longest),
    quantization: serving.quantization,
    fits: problem === undefined,
    explanation: [describeServing(serving, options), ...describeTraining(options)],
    notes: problem === undefined ? notesOf(serving, options) : [],
    ...(problem === undefined ? {} : { problem }),
  };
}

/** The plan for a model, of which the context may not be known yet. */
export function planModel(
  { totalBytes, freeBytes, ...settings }: GpuUse,
  model: ModelShape,
  maxModelLen: number = shortestContext,
  purpose: ModelPurpose = "improve",
): GpuPlan {
  return planGpu({
    gpuMemoryBytes: totalBytes,
    freeBytes,
    model,
    settings: { ...settings, maxModelLen },
    purpose,
  });
}

function servingOf({ gpuMemoryBytes, model, settings }: GpuPlanOptions): Serving {
  return chooseServing(gpuMemoryBytes, model, settings);
}

function freeOf({ gpuMemoryBytes, freeBytes = gpuMemoryBytes }: GpuPlanOptions): number {
  return freeBytes;
}

function highestUtilizationOf(options: GpuPlanOptions): number {
  const freeHundredths = Math.floor((freeOf(options) / options.gpuMemoryBytes) * 100);
  return Math.min(highestUtilization, freeHundredths / 100);
}

function servingProblem(options: GpuPlanOptions): ModelProblem | undefined {
  const serving = servingOf(options);
  const free = freeOf(options);
  if (serving.longest < neededLength(options.settings)) {
    return {
      message: `the GPU's memory is too small for a context of ${neededLength(options.settings)} tokens; ${describeServing(serving, options)}`,
      remedy: remedyFor(serving, options),
    };
  }
  if (free >= serving.budgetBytes) return undefined;
  return {
    message: `vLLM is to take ${gigabytes(serving.budgetBytes)} GB of the GPU's memory, and of ${gigabytes(options.gpuMemoryBytes)} GB only ${gigabytes(free)} are free`,
    remedy: `end what \`nvidia-smi\` lists on it, lower --engine-gpu-memory-utilization (now ${options.settings.utilization}), or use --profile cpu`,
  };
}

function neededLength({ maxModelLen, exactLength = false }: GpuSettings): number {
  return exactLength ? maxModelLen : Math.min(maxModelLen, shortestContext);
}

/** The first change of the settings that makes it fit. */
function remedyFor({ longest }: Serving, options: GpuPlanOptions): string {
  const quantization = { quantization: "bitsandbytes" } as const;
  const utilization = { utilization: highestUtilizationOf(options) };
  const changes: Partial<GpuSettings>[] = [
    ...(longest >= shortestContext ? [{ maxModelLen: longest }] : []),
    quantization,
    utilization,
    { ...quantization, ...utilization },
  ];
  const found = changes.find((change) =>
    servingFits({ ...options, settings: { ...options.settings, ...change } }),
  );
  const others = "name a smaller model, use a GPU with more memory, or use --profile cpu";
  return found === undefined ? others : `set ${flagsOf(found)}, ${others}`;
}

function servingFits(options: GpuPlanOptions): boolean {
  const { longest, budgetBytes } = servingOf(options);
  return longest >= neededLength(options.settings) && freeOf(options) >= budgetBytes;
}

function flagsOf({ maxModelLen, quantization, utilization }: Partial<GpuSettings>): string {
  const flags: [string, unknown][] = [
    ["--engine-max-model-len", maxModelLen],
    ["--engine-quantization", quantization],
    ["--engine-gpu-memory-utilization", utilization],
  ];
  return flags
    .filter(([, value]) => value !== undefined)
    .map(([flag, value]) => `${flag} ${value}`)
    .join(" ");
}

function describeServing(serving: Serving, { gpuMemoryBytes, model, settings }: GpuPlanOptions): string {
  const { quantization, budgetBytes, weightBytes, cacheBytes, longest } = serving;
  const share = `serving: ${settings.utilization} of ${gigabytes(gpuMemoryBytes)} GB is ${gigabytes(budgetBytes)} GB`;
  const taken = `weights in ${quantization === "none" ? 16 : 4} bits ${gigabytes(weightBytes)} and server ${gigabytes(serverBytes)} GB`;
  if (cacheBytes <= 0) return `${share}, less than ${taken}`;
  const tokens = Number.isFinite(longest)
    ? `, ${longest} tokens of ${(model.bytesPerToken / 1e3).toFixed(1)} kB`
    : "";
  return `${share}; without ${taken} it leaves ${gigabytes(cacheBytes)} GB of KV cache${tokens}`;
}

function trainingBytes({ parameters }: ModelShape): number {
  return asleepBytes + parameters * bytesPerParameter.bitsandbytes + trainerBytes;
}

function describeTraining(options: GpuPlanOptions): string[] {
  const { model, purpose = "improve" } = options;
  if (purpose === "serve") return [];
  const weights = model.parameters * bytesPerParameter.bitsandbytes;
  return [
    `training: server asleep ${gigabytes(asleepBytes)}, weights in 4 bits ${gigabytes(weights)} and trainer ${gigabytes(trainerBytes)} are ${gigabytes(trainingBytes(model))} GB of ${gigabytes(freeOf(options))} GB free`,
  ];
}

function trainingProblem(options: GpuPlanOptions): ModelProblem | undefined {
  const { gpuMemoryBytes, model, purpose = "improve" } = options;
  const needed = trainingBytes(model);
  if (purpose === "serve" || freeOf(options) >= needed) return undefined;
  const memory =
    gpuMemoryBytes >= needed ? "end what `nvidia-smi` lists on it" : "use a GPU with more memory";
  return {
    message: `the GPU's memory is too small; ${describeTraining(options).join()}`,
    remedy: `name a smaller model, ${memory}, or use --profile cpu`,
  };
}

function notesOf({ quantization, longest }: Serving, options: GpuPlanOptions): string[] {
  const { settings } = options;
  const notes: string[] = [];
  if (quantization === "bitsandbytes" && settings.quantization === undefined)
    notes.push("served in 4 bits (bitsandbytes): 16 bits leave too little memory for the context");
  if (longest < settings.maxModelLen)
    notes.push(
      `context of ${longest} tokens instead of ${settings.maxModelLen}: more does not fit${hintOf(longest, options)}`,
    );
  return notes;
}

function hintOf(longest: number, options: GpuPlanOptions): string {
  const settings = { ...options.settings, utilization: highestUtilizationOf(options) };
  const more = Math.min(servingOf({ ...options, settings }).longest, settings.maxModelLen);
  return more > longest ? `; --engine-gpu-memory-utilization ${settings.utilization} allows ${more}` : "";
}
