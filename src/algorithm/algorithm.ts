import type { MessagesAdapter, TraceAdapter } from "../adapter/adapters.ts";
import type { Quantization } from "../engine/gpu-serving.ts";
import type { TrainResult } from "../engine/trainer.ts";
import type { EngineCheckpoint } from "../engine/vllm.ts";
import type { Logger } from "../log.ts";
import type { StoreApi } from "../protocol/store-api.ts";
import type { JsonObject, LlmResource, NamedResources } from "../protocol/types.ts";
import type { RunFolder } from "../run-folder.ts";
import type { GpuReadings } from "./gpu-hand-over.ts";
import type { ModelSettings } from "./model-settings.ts";
import type { IterationReport, Report, VersionReport } from "./report.ts";
import type { RolloutProgress } from "./rollouts.ts";
import type { Row } from "./rows.ts";
import type { SelectionRule } from "./select.ts";
import type { ServedDifference } from "./served-weights.ts";

/**
 * What drives a run: queues rollouts, learns from what they leave behind, hands new weights to the engine. The built-in
 * one is written against the same interface as a user's, whose file exports it as its default.
 */
export type Algorithm = (context: AlgorithmContext) => Promise<Report | void>;

export interface AlgorithmContext {
  settings: AlgorithmSettings;
  store: StoreApi;
  proxy: AlgorithmProxy;
  engine: AlgorithmEngine;
  /** Spans of one attempt → what the model saw, said and was rewarded with. */
  adapter: TraceAdapter;
  /** Spans of one attempt → its calls in words, for training from text. */
  messages: MessagesAdapter;
  /** Tasks, as they were read. */
  train: unknown[];
  validation: unknown[];
  /** Published beside the model with every rollout. */
  resources: NamedResources;
  folder: RunFolder;
  /** Aborted when the run is stopped. */
  signal: AbortSignal;
  log: Logger;
  /** Lines for the user. */
  say: (line: string) => void;
  onProgress: (phase: string, progress: RolloutProgress) => void;
  onVersion: (version: VersionReport) => void;
  onIteration: (iteration: IterationReport) => void;
}

export interface AlgorithmSettings {
  iterations: number;
  seed: number;
  profile: "cpu" | "cuda";
  /** How a GPU serves the weights; as they are when undefined. */
  quantization?: Quantization;
  between: "swap" | "restart";
  rule: SelectionRule;
  fraction: number;
  shuffleRewards: boolean;
  attemptTimeoutSeconds: number;
  phaseTimeoutSeconds: number;
  trainerThreads: number;
  /** Keep each version's LoRA adapter by itself, too, in its folder `adapter`. */
  keepAdapter: boolean;
  maxModelLen: number;
  model: ModelSettings;
  modelName: string;
  /** Settings for the agent, sent along with every rollout. */
  agentSettings: JsonObject;
}

export interface AlgorithmProxy {
  /**
   * What agents are given to reach the model: with these sampling parameters. With the ids of an attempt the address
   * is that attempt's own; without them, runners derive it.
   */
  resource(samplingParameters: JsonObject, attempt?: { rolloutId: string; attemptId: string }): LlmResource;
  /** Returns when every recorded call is in the store. */
  flush(): Promise<void>;
}

export interface AlgorithmEngine {
  /** What is served now. */
  readonly checkpoint: EngineCheckpoint;
  /** False for an engine that somebody else runs: new weights cannot be handed to it. */
  readonly canTrain: boolean;
  /** Starts the trainer's imports, so that they run beside the rollouts. */
  prepareTraining(): void;
  /**
   * Fine-tunes the served checkpoint; the result is proven and lies in `models/NAME`, but is not served yet. On one GPU
   * the engine leaves it to the trainer, and calls are held off from here until `serve`.
   */
  train(rows: Row[], name: string): Promise<TrainedCheckpoint>;
  /** Puts the new weights in, checks by log-probabilities that they are served, and lets calls through again. */
  serve(trained: TrainedCheckpoint): Promise<ServedCheckpoint>;
}

export interface TrainedCheckpoint {
  checkpoint: EngineCheckpoint;
  result: TrainResult;
}

export type ServedCheckpoint = {
  method: "swap" | "restart";
  /** Where engine and trainer share a GPU. */
  gpu?: GpuReadings;
} & ServedDifference;
