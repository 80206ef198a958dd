import { adaptProxySpans } from "../adapter/proxy-adapter.ts";
import type { AdaptedSpans, DroppedCall, Triplet } from "../adapter/triplet.ts";
import { propagateRewards } from "../algorithm/propagate.ts";
import { makeRow, type RecordedRow } from "../algorithm/rows.ts";
import type { SelectionRule } from "../algorithm/select.ts";
import { isFinished } from "../protocol/enums.ts";
import type { Rollout, Span } from "../protocol/types.ts";

/** How calls become rows. */
export interface RowRules {
  rule: SelectionRule;
  /** The proxy adapter when absent. */
  adapter?: (
    spans: Span[],
  ) => Pick<AdaptedSpans, "triplets" | "dropped"> & Partial<Pick<AdaptedSpans, "unassignedRewards">>;
}

export interface RolloutRows {
  /** Every call that got an answer, with the reward given to it. */
  triplets: Triplet[];
  /** The rows there are to choose from; a round's selection takes the best of all rollouts. */
  rows: RecordedRow[];
  /** Every call that is no row, with the reason. */
  leftOut: DroppedCall[];
  /** Of these, the ones that are no triplet either. */
  dropped: DroppedCall[];
  unassignedRewards: { sequence_id: number; value: number }[];
}

/** What training would make of the spans of a rollout's latest attempt. */
export function rowsOfRollout(
  rollout: Pick<Rollout, "rollout_id" | "status">,
  spans: Span[],
  { rule, adapter = adaptProxySpans }: RowRules,
): RolloutRows {
  const { triplets, dropped, unassignedRewards = [] } = adapter(spans);
  const refusal = whyNoRows(rollout, rule);
  const { calls, dropped: unusable } = propagateRewards(
    triplets,
    rule === "recipe" ? "filter-first" : "propagate-first",
  );
  const usable = refusal === null ? [] : calls.map(({ triplet }) => leftOut(triplet, refusal));
  return {
    triplets,
    rows: refusal === null ? calls.map((call) => makeRow(rollout.rollout_id, call)) : [],
    dropped,
    leftOut: [...dropped, ...unusable.map(({ triplet, reason }) => leftOut(triplet, reason)), ...usable],
    unassignedRewards,
  };
}

/** Whole rollouts are left out by their status. */
export function whyNoRows({ status }: Pick<Rollout, "status">, rule: SelectionRule): string | null {
  if (!isFinished(status)) return "rollout_unfinished";
  return rule === "recipe" || status === "succeeded" ? null : `rollout_${status}`;
}

function leftOut({ metadata }: Triplet, reason: string): DroppedCall {
  return { sequence_id: metadata.sequence_id, response_id: metadata.response_id, reason };
}
