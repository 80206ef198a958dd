import type { Logger } from "../log.ts";
import type { Span } from "../protocol/types.ts";
import { rewardOf } from "./rewards.ts";
import type { AdaptedSpans } from "./triplet.ts";

export interface RewardableCall {
  sequenceId: number;
  reward: number | null;
}

/**
 * Rewards in ascending order, each to the latest call before it that has none yet. Calls and rewards are
 * both in order, so the calls still waiting form a stack. Returns the rewards that no call takes.
 */
export function assignRewards(
  calls: readonly RewardableCall[],
  ordered: readonly Span[],
  log: Logger,
): AdaptedSpans["unassignedRewards"] {
  const unassigned: AdaptedSpans["unassignedRewards"] = [];
  const waiting: RewardableCall[] = [];
  let next = 0;
  for (const span of ordered) {
    const value = rewardOf(span, log);
    if (value === null) continue;
    for (; (calls[next]?.sequenceId ?? Infinity) < span.sequence_id; next += 1) {
      waiting.push(calls[next] as RewardableCall);
    }
    const call = waiting.pop();
    if (call === undefined) unassigned.push({ sequence_id: span.sequence_id, value });
    else call.reward = value;
  }
  return unassigned;
}
