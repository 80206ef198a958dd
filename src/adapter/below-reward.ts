import type { Span } from "../protocol/types.ts";
import type { CallGroup } from "./call-groups.ts";
import { isRewardSpan } from "./rewards.ts";

/** Whether a call was made while a reward was being found, by a judge for example: what lies above its spans tells. */
export function rewardCalls(ordered: readonly Span[]): (group: CallGroup) => boolean {
  const byId = new Map(ordered.map((span) => [span.span_id, span]));
  return ({ spans }) => spans.some((span) => isBelowReward(span, byId));
}

function isBelowReward({ span_id, parent_id }: Span, byId: Map<string, Span>): boolean {
  const seen = new Set([span_id]);
  for (let id = parent_id; id !== null && id !== undefined && !seen.has(id);) {
    const parent = byId.get(id);
    if (parent === undefined) return false;
    if (isRewardSpan(parent)) return true;
    seen.add(id);
    id = parent.parent_id;
  }
  return false;
}
