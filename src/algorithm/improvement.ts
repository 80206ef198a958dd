import type { Trainer } from "../engine/trainer.ts";
import type { EngineCheckpoint, VllmEngine } from "../engine/vllm.ts";
import type { Logger } from "../log.ts";
import type { StoreApi } from "../protocol/store-api.ts";
import type { Upstream } from "../proxy/upstreams.ts";
import type { RunFolder } from "../run-folder.ts";
import type { ModelSettings } from "./model-settings.ts";
import type { IterationReport, VersionReport } from "./report.ts";
import type { RolloutProgress } from "./rollouts.ts";

export interface ImprovementSettings {
  iterations: number;
  seed: number;
  profile: "cpu" | "cuda";
  between: "swap" | "restart";
  rule: "above-mean" | "recipe";
  fraction: number;
  shuffleRewards: boolean;
  attemptTimeoutSeconds: number;
  phaseTimeoutSeconds: number;
  trainerThreads: number;
  maxModelLen: number;
  model: ModelSettings;
  modelName: string;
}

/** What the loop works with: its settings, the parts it drives, and where it tells what happens. */
export interface Improvement {
  settings: ImprovementSettings;
  store: StoreApi;
  proxy: {
    /** As agents reach it, ending in /v1. */
    endpoint: string;
    setUpstreams(upstreams: Upstream[]): Promise<void>;
    flush(deadlineMs: number): Promise<void>;
  };
  engine: VllmEngine;
  startTrainer: () => Trainer;
  tasks: { train: unknown[]; validation: unknown[] };
  base: EngineCheckpoint;
  folder: RunFolder;
  signal: AbortSignal;
  log: Logger;
  /** Lines for the user. */
  say: (line: string) => void;
  onProgress: (phase: string, progress: RolloutProgress) => void;
  onVersion: (version: VersionReport) => void;
  onIteration: (iteration: IterationReport) => void;
}
