import type { EngineCheckpoint } from "../engine/vllm.ts";
import { AglError } from "../errors.ts";
import type { AlgorithmEngine, ServedCheckpoint, TrainedCheckpoint } from "./algorithm.ts";

/** A model server that somebody else runs: it can be asked, but not given new weights. */
export class ExternalEngine implements AlgorithmEngine {
  readonly canTrain = false;
  readonly checkpoint: EngineCheckpoint;

  constructor(url: string) {
    this.checkpoint = { path: url, name: "external" };
  }

  prepareTraining(): void {}

  train(): Promise<TrainedCheckpoint> {
    return Promise.reject(this.#refusal());
  }

  serve(): Promise<ServedCheckpoint> {
    return Promise.reject(this.#refusal());
  }

  #refusal(): AglError {
    return new AglError(
      "engine",
      `${this.checkpoint.path} is not our engine: it cannot be given new weights`,
      {
        remedy: "leave engine.url unset to let agl start vLLM itself",
      },
    );
  }
}
