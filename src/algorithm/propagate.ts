import type { Triplet } from "../adapter/triplet.ts";

/**
 * How a reward flows back to the calls before it. `filter-first` is the recipe: a call without ids is skipped
 * before propagation, and its reward is lost. `propagate-first` lets the reward of such a call flow on.
 */
export type Propagation = "filter-first" | "propagate-first";

export interface RewardedCall {
  triplet: Triplet;
  reward: number;
}

export interface PropagatedCalls {
  /** In time order, each with ids and a reward. */
  calls: RewardedCall[];
  dropped: { triplet: Triplet; reason: string }[];
}

/** From the last call to the first: a call without a reward of its own takes the one of the call after it. */
export function propagateRewards(triplets: readonly Triplet[], propagation: Propagation): PropagatedCalls {
  const result: PropagatedCalls = { calls: [], dropped: [] };
  let recent: number | null = null;
  for (const triplet of inTimeOrder(triplets).reverse()) {
    const unusable = unusableReason(triplet);
    if (unusable === null || propagation === "propagate-first") recent = triplet.reward ?? recent;
    const reason = unusable ?? (recent === null ? "no_reward" : null);
    if (reason !== null) result.dropped.push({ triplet, reason });
    else result.calls.push({ triplet, reward: recent as number });
  }
  result.calls.reverse();
  result.dropped.reverse();
  return result;
}

/** The same for whatever has a reward and is in time order already. */
export function flowBack(rewards: readonly (number | null)[]): (number | null)[] {
  let recent: number | null = null;
  return rewards
    .toReversed()
    .map((reward) => (recent = reward ?? recent))
    .reverse();
}

/** Some trace adapters give depth-first order; propagation means time. */
function inTimeOrder(triplets: readonly Triplet[]): Triplet[] {
  return triplets.toSorted((one, other) => one.metadata.sequence_id - other.metadata.sequence_id);
}

function unusableReason({ prompt, response, metadata }: Triplet): string | null {
  if (!metadata.exact) return metadata.reason ?? "not_exact";
  if (prompt.token_ids.length === 0) return "no_prompt_token_ids";
  return response.token_ids.length === 0 ? "no_response_token_ids" : null;
}
