import { rewardOf } from "../adapter/rewards.ts";
import type { Span } from "../protocol/types.ts";
import { estimateMean } from "./interval.ts";
import type { FinishedRollout } from "./rollouts.ts";

/** The last reward among the spans; undefined when there is none. */
export function finalReward(spans: Span[]): number | undefined {
  for (const span of spans.toReversed()) {
    const reward = rewardOf(span);
    if (reward !== undefined && reward !== null) return reward;
  }
  return undefined;
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
    .filter((reward) => reward !== undefined);
  return estimateMean(rewards);
}
