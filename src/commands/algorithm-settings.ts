import { availableParallelism } from "node:os";
import type { AlgorithmSettings } from "../algorithm/algorithm.ts";
import type { Config } from "../config.ts";
import type { Inputs } from "./inputs.ts";

/** What was configured, and for the rest what the model's own settings say. */
export function algorithmSettings(config: Config, inputs: Inputs): AlgorithmSettings {
  const { training, ...model } = inputs.model;
  return {
    iterations: config.iterations,
    seed: config.seed,
    profile: inputs.profile,
    ...(inputs.gpuPlan === undefined ? {} : { quantization: inputs.gpuPlan.quantization }),
    between: config["engine.between"],
    rule: config["selection.rule"],
    fraction: config["selection.fraction"],
    shuffleRewards: config["selection.shuffle_rewards"],
    attemptTimeoutSeconds: config["rollouts.attempt_timeout_seconds"],
    phaseTimeoutSeconds: config["rollouts.phase_timeout_seconds"],
    trainerThreads: config["trainer.threads"] ?? availableParallelism(),
    keepAdapter: config["trainer.keep_adapter"],
    maxModelLen: inputs.gpuPlan?.maxModelLen ?? config["engine.max_model_len"] ?? inputs.model.max_model_len,
    modelName: inputs.modelName,
    agentSettings:
      inputs.agent === undefined && inputs.model.relative_tolerance !== undefined
        ? { relativeTolerance: inputs.model.relative_tolerance }
        : {},
    model: {
      ...model,
      training: {
        ...training,
        learning_rate: config["trainer.learning_rate"] ?? training.learning_rate,
        epochs: config["trainer.epochs"] ?? training.epochs,
        batch_size: config["trainer.batch_size"] ?? training.batch_size,
        lora_r: config["trainer.lora_r"] ?? training.lora_r,
        lora_alpha: config["trainer.lora_alpha"] ?? training.lora_alpha,
      },
    },
  };
}
