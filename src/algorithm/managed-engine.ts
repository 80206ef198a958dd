import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { proveCheckpoint, publishCheckpoint } from "../engine/checkpoint.ts";
import type { Trainer, TrainResult } from "../engine/trainer.ts";
import type { EngineCheckpoint, VllmEngine } from "../engine/vllm.ts";
import { AglError, messageOf } from "../errors.ts";
import type { RunFolder } from "../run-folder.ts";
import type { AlgorithmEngine, AlgorithmSettings, ServedCheckpoint, TrainedCheckpoint } from "./algorithm.ts";
import type { GpuHandOver } from "./gpu-hand-over.ts";
import type { Row } from "./rows.ts";
import {
  acceptedDifference,
  assertNewWeights,
  differenceToServed,
  type ServedDifference,
} from "./served-weights.ts";

export interface ManagedEngineOptions {
  settings: AlgorithmSettings;
  vllm: VllmEngine;
  startTrainer: () => Trainer;
  /** Lets calls through to this checkpoint, or holds them off. */
  route: (checkpoint: EngineCheckpoint | undefined) => Promise<void>;
  /** Returns when every recorded call is in the store. */
  flush: () => Promise<void>;
  /** Where engine and trainer use one GPU by turns; without it both work side by side. */
  handOver?: GpuHandOver;
  base: EngineCheckpoint;
  folder: RunFolder;
  signal: AbortSignal;
  say: (line: string) => void;
}

/** The vLLM that this run has started, and the trainer that makes what it serves next. */
export class ManagedEngine implements AlgorithmEngine {
  readonly canTrain = true;
  readonly #options: ManagedEngineOptions;
  #checkpoint: EngineCheckpoint;
  #trainer: Trainer | undefined;

  constructor(options: ManagedEngineOptions) {
    this.#options = options;
    this.#checkpoint = options.base;
  }

  get checkpoint(): EngineCheckpoint {
    return this.#checkpoint;
  }

  /** Starts vLLM with the base model and opens the way to it. */
  async start(): Promise<void> {
    const { vllm, handOver, route, signal } = this.#options;
    await handOver?.begin();
    await vllm.start(this.#checkpoint, signal);
    await route(this.#checkpoint);
  }

  prepareTraining(): void {
    this.#trainer ??= this.#options.startTrainer();
  }

  async train(rows: Row[], name: string): Promise<TrainedCheckpoint> {
    const { settings, folder, signal, say } = this.#options;
    signal.throwIfAborted();
    const work = join(folder.work, name);
    mkdirSync(work, { recursive: true });
    const rowsFile = join(work, "rows.jsonl");
    writeFileSync(rowsFile, rows.map((row) => JSON.stringify(row) + "\n").join(""));
    await this.#freeGpu(name);
    say(`${name}: training on ${rows.length} rows`);
    const temporary = join(folder.models, `.${name}.incomplete`);
    const result = await this.#fineTune(rowsFile, temporary, join(work, "progress.jsonl"));
    await this.#options.handOver?.trainerEnded(result.gpu_peak_bytes);
    const manifest = await proveCheckpoint({
      base: this.#checkpoint.path,
      candidate: temporary,
      adapter: settings.keepAdapter,
    });
    const path = join(folder.models, name);
    await publishCheckpoint(temporary, path, manifest);
    return { checkpoint: { path, name }, result };
  }

  async serve({ checkpoint, result }: TrainedCheckpoint): Promise<ServedCheckpoint> {
    this.#options.say(`${checkpoint.name}: swapping the weights`);
    await this.#options.route(undefined);
    const method = await this.#replace(checkpoint);
    const difference = await this.#proveServed(result);
    this.#checkpoint = checkpoint;
    await this.#options.route(checkpoint);
    const gpu = this.#options.handOver?.readings;
    return { method, ...difference, ...(gpu === undefined ? {} : { gpu }) };
  }

  /** Ends a trainer that was prepared and not used. */
  async stopTrainer(): Promise<void> {
    const trainer = this.#trainer;
    this.#trainer = undefined;
    await trainer?.stop();
  }

  /** Takes the engine off a GPU that the trainer needs; calls are held off until something is served again. */
  async #freeGpu(name: string): Promise<void> {
    const { handOver, route, flush, say } = this.#options;
    if (handOver === undefined) return;
    say(`${name}: handing the GPU to the trainer`);
    await route(undefined);
    await flush();
    await handOver.toTrainer(() => this.#trainer?.processes ?? []);
  }

  async #fineTune(rows: string, output: string, progress: string): Promise<TrainResult> {
    const { settings } = this.#options;
    const { max_length, ...hyper } = settings.model.training;
    this.prepareTraining();
    try {
      return await (this.#trainer as Trainer).train({
        base: this.#checkpoint.path,
        output,
        rows,
        profile: settings.profile,
        seed: settings.seed,
        max_length: Math.min(settings.maxModelLen, max_length),
        hyper,
        threads: settings.trainerThreads,
        keep_adapter: settings.keepAdapter,
        progress,
        ...(settings.quantization === undefined ? {} : { quantization: settings.quantization }),
      });
    } finally {
      await this.stopTrainer();
    }
  }

  async #replace(checkpoint: EngineCheckpoint): Promise<"swap" | "restart"> {
    const { settings, vllm, handOver, signal, say } = this.#options;
    // The trainer had the GPU, so the engine sleeps or is stopped.
    if (handOver !== undefined && vllm.state !== "ready") return await handOver.toEngine(checkpoint);
    if (settings.between === "swap") {
      try {
        await vllm.swap(checkpoint);
        return "swap";
      } catch (error) {
        if (signal.aborted) throw error;
        say(`the weights could not be swapped (${messageOf(error)}); restarting the engine`);
      }
    }
    await vllm.stop();
    await vllm.start(checkpoint, signal);
    return "restart";
  }

  async #proveServed({ probes }: TrainResult): Promise<ServedDifference> {
    const { vllm, settings } = this.#options;
    if (probes.length === 0) {
      throw new AglError("trainer", "the trainer gave no log-probabilities to check the engine with");
    }
    const difference = await differenceToServed(probes, (ids) =>
      vllm.client.promptLogprobs(settings.modelName, ids, 120_000),
    );
    assertNewWeights(difference, acceptedDifference(settings.profile, settings.quantization));
    return difference;
  }
}
