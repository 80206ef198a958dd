import { finalReward } from "../adapter/rewards.ts";
import type { JsonObject } from "../protocol/types.ts";
import type { AlgorithmContext } from "./algorithm.ts";
import { estimateMean } from "./interval.ts";
import { rollOut } from "./published-rollouts.ts";
import type { VersionReport } from "./report.ts";
import type { FinishedRollout } from "./rollouts.ts";

/** Validation of a version: every task once at temperature 0 and once as training samples it, at temperature 1 and top_p 1. */
export async function evaluate(context: AlgorithmContext, version: number): Promise<VersionReport> {
  const sampling = context.settings.model.sampling_parameters;
  const phase = async (name: "greedy" | "sampled", parameters: JsonObject) => {
    const rollouts = await rollOut(context, {
      tasks: context.validation,
      mode: "val",
      sampling: { ...sampling, ...parameters },
      metadata: { purpose: `validation-${name}`, version },
      label: `version_${version} validation ${name}`,
    });
    return summariseValidation(rollouts);
  };
  const greedy = await phase("greedy", { temperature: 0 });
  const sampled = await phase("sampled", { temperature: 1, top_p: 1 });
  const found: VersionReport = {
    version,
    path: context.engine.checkpoint.path,
    validation: { greedy, sampled },
  };
  context.onVersion(found);
  return found;
}

/** A validation rollout that failed or has no reward counts as 0: a model that breaks its agent has not solved the task. */
export function summariseValidation(rollouts: FinishedRollout[]) {
  const rewards = rollouts.map(({ failure, spans }) =>
    failure === undefined ? (finalReward(spans) ?? 0) : 0,
  );
  const failed = rollouts.filter(({ failure }) => failure !== undefined).length;
  return { ...estimateMean(rewards), failed };
}

/** Mean reward of the succeeded training rollouts that have one. */
export function summariseTraining(rollouts: FinishedRollout[]) {
  const rewards = rollouts
    .filter(({ failure }) => failure === undefined)
    .map(({ spans }) => finalReward(spans))
    .filter((reward) => reward !== null);
  return estimateMean(rewards);
}
