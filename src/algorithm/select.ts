import type { DroppedCall, Triplet } from "../adapter/triplet.ts";
import { isUnseen } from "../adapter/unseen-calls.ts";
import type { RolloutStatus } from "../protocol/enums.ts";
import { isFinished } from "../protocol/enums.ts";
import { propagateRewards } from "./propagate.ts";
import type { Random } from "./random.ts";
import { createRandom } from "./random.ts";
import type { RecordedRow, Row, RowProvenance } from "./rows.ts";
import { ignoredLabel, isTooLong, makeRow } from "./rows.ts";

export type SelectionRule = "above-mean" | "recipe";

export interface RolloutCalls {
  rollout_id: string;
  status: RolloutStatus;
  triplets: readonly Triplet[];
  dropped: readonly DroppedCall[];
  unassignedRewards?: readonly unknown[];
}

export interface SelectionInput {
  rollouts: readonly RolloutCalls[];
  rule: SelectionRule;
  /** Share of the rows, best first, above 0 and at most 1. */
  fraction: number;
  /** Most ids in one row. */
  maxLength: number;
  seed: number;
  /** A control: rewards change places between rollouts before they flow back. What is learned then is chance. */
  shuffleRewards?: boolean;
}

export interface Selection {
  kept: Row[];
  /** Where each kept row came from, in the same order. */
  provenance: RowProvenance[];
  /** Calls left out, by reason. Together with the kept rows they are all calls of the input. */
  dropped: { [reason: string]: number };
  /** Rows there were to choose from, how many different answers they hold, and their mean reward (null without rows). */
  candidates: { rows: number; distinctResponses: number; meanReward: number | null };
  /** Ids of rollouts in which nothing that can be learned from was recorded: no call, or by others only. */
  rolloutsWithoutCalls: string[];
  /** Rewards before every call, or more rewards than calls. */
  rewardsWithoutCall: number;
  /** Set when this round must not change the model: why. */
  noUpdate?: string;
}

type Count = (reason: string, amount?: number) => void;

export function selectRows(input: SelectionInput): Selection {
  const dropped: Selection["dropped"] = {};
  const count: Count = (reason, amount = 1) => {
    if (amount > 0) dropped[reason] = (dropped[reason] ?? 0) + amount;
  };
  const random = createRandom(input.seed);
  const eligible = eligibleRollouts(input, count);
  const rollouts = input.shuffleRewards === true ? withShuffledRewards(eligible, random) : eligible;
  const rows = makeRows(input, rollouts, count);
  const separated = input.rule === "recipe" || rewardsDiffer(rows);
  const kept = separated ? chooseRows(input, rows, random, count) : [];
  if (!separated) count("rewards_all_equal", rows.length);
  return {
    kept: kept.map(({ row }) => row),
    provenance: kept.map(({ provenance }) => provenance),
    dropped,
    candidates: {
      rows: rows.length,
      distinctResponses: distinctResponses(rows),
      meanReward: rows.length === 0 ? null : meanReward(rows),
    },
    rolloutsWithoutCalls: input.rollouts.filter(hasNoCall).map(({ rollout_id }) => rollout_id),
    rewardsWithoutCall: input.rollouts.reduce(
      (sum, { unassignedRewards = [] }) => sum + unassignedRewards.length,
      0,
    ),
    ...(kept.length > 0 ? {} : { noUpdate: whyNothing(rows, separated, dropped) }),
  };
}

function eligibleRollouts({ rollouts, rule }: SelectionInput, count: Count): RolloutCalls[] {
  const eligible: RolloutCalls[] = [];
  for (const rollout of rollouts) {
    const taken = rule === "recipe" ? isFinished(rollout.status) : rollout.status === "succeeded";
    if (taken) eligible.push(rollout);
    else
      count(
        isFinished(rollout.status) ? `rollout_${rollout.status}` : "rollout_unfinished",
        callCount(rollout),
      );
  }
  return eligible;
}

function callCount(rollout: RolloutCalls): number {
  return rollout.triplets.length + rollout.dropped.length;
}

function hasNoCall({ triplets, dropped }: RolloutCalls): boolean {
  return triplets.length === 0 && dropped.every(isUnseen);
}

/** The rewards that are there change places; where there was none, there is none afterwards. */
function withShuffledRewards(rollouts: RolloutCalls[], random: Random): RolloutCalls[] {
  const rewards = rollouts.flatMap(({ triplets }) => triplets.map(({ reward }) => reward));
  const shuffled = random.shuffle(rewards.filter((reward) => reward !== null));
  return rollouts.map((rollout) => ({
    ...rollout,
    triplets: rollout.triplets.map((triplet) =>
      triplet.reward === null ? triplet : { ...triplet, reward: shuffled.pop() ?? null },
    ),
  }));
}

function makeRows(input: SelectionInput, rollouts: RolloutCalls[], count: Count): RecordedRow[] {
  const rows: RecordedRow[] = [];
  const propagation = input.rule === "recipe" ? "filter-first" : "propagate-first";
  for (const { rollout_id, triplets, dropped } of rollouts) {
    const propagated = propagateRewards(triplets, propagation);
    for (const { reason } of [...dropped, ...propagated.dropped]) count(reason);
    for (const call of propagated.calls) {
      const row = makeRow(rollout_id, call);
      if (isTooLong(row, input.maxLength)) count("too_long");
      else rows.push(row);
    }
  }
  return rows;
}

function rewardsDiffer(rows: RecordedRow[]): boolean {
  return rows.some(({ row }) => row.reward !== rows[0]?.row.reward);
}

function whyNothing(rows: RecordedRow[], separated: boolean, dropped: Selection["dropped"]): string {
  if (rows.length > 0 && !separated) {
    return `nothing separates the rewards: each of the ${rows.length} rows has ${rows[0]?.row.reward}`;
  }
  return `no row is left: ${listReasons(dropped)}`;
}

function listReasons(dropped: Selection["dropped"]): string {
  const reasons = Object.entries(dropped).map(([reason, amount]) => `${reason} ${amount}`);
  return reasons.length === 0 ? "there were no calls" : reasons.join(", ");
}

/** Shuffled first, so that equal rewards are cut at random; the sort is stable. */
function chooseRows(input: SelectionInput, rows: RecordedRow[], random: Random, count: Count): RecordedRow[] {
  if (rows.length === 0) return [];
  const ranked = random.shuffle(rows).sort((one, other) => other.row.reward - one.row.reward);
  const best = ranked.slice(0, Math.max(1, Math.floor(rows.length * input.fraction)));
  count("outside_best_fraction", ranked.length - best.length);
  if (input.rule === "recipe") return random.shuffle(best);
  const mean = meanReward(rows);
  const above = best.filter(({ row }) => row.reward > mean);
  count("not_above_mean", best.length - above.length);
  return random.shuffle(above);
}

function meanReward(rows: RecordedRow[]): number {
  return rows.reduce((sum, { row }) => sum + row.reward, 0) / rows.length;
}

/** One where exploration is gone: all samples look alike. */
function distinctResponses(rows: RecordedRow[]): number {
  return new Set(rows.map(({ row }) => row.labels.filter((id) => id !== ignoredLabel).join())).size;
}
