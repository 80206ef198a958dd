import type { Logger } from "../log.ts";
import { silentLogger } from "../log.ts";
import type { Span } from "../protocol/types.ts";
import type { CallEvidence } from "./proxy-call.ts";
import { callEvidence } from "./proxy-call.ts";
import { rewardOf } from "./rewards.ts";
import { byOrder } from "./span-order.ts";
import type { AdaptedSpans, DroppedCall, Triplet } from "./triplet.ts";

/** Spans of one attempt, as the recording proxy and the runner wrote them, in any order. */
export function adaptProxySpans(spans: readonly Span[], options: { log?: Logger } = {}): AdaptedSpans {
  const ordered = spans.toSorted(byOrder);
  const { calls, dropped } = collectCalls(ordered);
  const triplets = calls.map(toTriplet);
  const unassignedRewards = assignRewards(triplets, ordered, options.log ?? silentLogger);
  return { triplets, dropped, unassignedRewards };
}

function collectCalls(ordered: Span[]): { calls: CallEvidence[]; dropped: DroppedCall[] } {
  const evidence = ordered.map(callEvidence).filter((item) => item !== null);
  const answered = new Set(evidence.filter(canBeRewarded).map((item) => item.sequenceId));
  const calls: CallEvidence[] = [];
  const dropped: DroppedCall[] = [];
  for (const group of groupByCall(evidence)) {
    const call = bestEvidence(group);
    const unused = unusedReason(group, call);
    if (unused !== null) dropped.push(droppedCall(call, unused));
    else if (canBeRewarded(call)) calls.push(call);
    // The normalised span beside a raw one says nothing new.
    else if (!answered.has(call.sequenceId)) dropped.push(droppedCall(call, call.inexactReason ?? "no_ids"));
    for (const sequenceId of repeatedAt(group, call)) {
      dropped.push(droppedCall({ ...call, sequenceId }, "duplicate"));
    }
  }
  const position = new Map(evidence.map((item, index) => [item, index]));
  calls.sort((one, other) => (position.get(one) ?? 0) - (position.get(other) ?? 0));
  return { calls, dropped };
}

/** One group per call: by response id, or by sequence id and ids where there is no response id. */
function groupByCall(evidence: CallEvidence[]): CallEvidence[][] {
  const key = ({ responseId, sequenceId, promptIds, responseIds }: CallEvidence) =>
    responseId === null ? `${sequenceId} ${promptIds.join()} ${responseIds.join()}` : `id ${responseId}`;
  return [...Map.groupBy(evidence, key).values()];
}

function isUsable(item: CallEvidence): boolean {
  return item.unusedReason === null && item.inexactReason === null;
}

/** A raw span is an answer that the agent got, even if its ids are of no use. */
function canBeRewarded(item: CallEvidence): boolean {
  return isUsable(item) || (item.unusedReason === null && item.isRaw);
}

function bestEvidence(group: CallEvidence[]): CallEvidence {
  return (group.find(isUsable) ?? group.find((item) => item.isRaw) ?? group[0]) as CallEvidence;
}

function unusedReason(group: CallEvidence[], call: CallEvidence): string | null {
  const marked = group.find((item) => item.sequenceId === call.sequenceId && item.unusedReason !== null);
  return marked?.unusedReason ?? null;
}

function repeatedAt(group: CallEvidence[], call: CallEvidence): number[] {
  const others = group.map((item) => item.sequenceId).filter((sequenceId) => sequenceId !== call.sequenceId);
  return [...new Set(others)];
}

function droppedCall(call: CallEvidence, reason: string): DroppedCall {
  return { sequence_id: call.sequenceId, response_id: call.responseId, reason };
}

function toTriplet(call: CallEvidence): Triplet {
  const exact = call.inexactReason === null;
  return {
    prompt: { token_ids: exact ? call.promptIds : [] },
    response: { token_ids: exact ? call.responseIds : [] },
    reward: null,
    metadata: {
      response_id: call.responseId,
      sequence_id: call.sequenceId,
      checkpoint: call.checkpoint,
      exact,
      reason: call.inexactReason,
      finish_reason: call.finishReason,
    },
  };
}

/**
 * Rewards in ascending order, each to the latest call before it that has none yet. Calls and rewards are
 * both in order, so the calls still waiting form a stack.
 */
function assignRewards(triplets: Triplet[], ordered: Span[], log: Logger): AdaptedSpans["unassignedRewards"] {
  const unassigned: AdaptedSpans["unassignedRewards"] = [];
  const waiting: Triplet[] = [];
  let next = 0;
  for (const span of ordered) {
    const value = rewardOf(span, log);
    if (value === null) continue;
    for (; (triplets[next]?.metadata.sequence_id ?? Infinity) < span.sequence_id; next += 1) {
      waiting.push(triplets[next] as Triplet);
    }
    const call = waiting.pop();
    if (call === undefined) unassigned.push({ sequence_id: span.sequence_id, value });
    else call.reward = value;
  }
  return unassigned;
}
