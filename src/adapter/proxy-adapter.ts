import type { Logger } from "../log.ts";
import { silentLogger } from "../log.ts";
import type { Span } from "../protocol/types.ts";
import type { CallEvidence } from "./proxy-call.ts";
import { callEvidence } from "./proxy-call.ts";
import { rewardCalls } from "./below-reward.ts";
import { callGroups, droppedGroup, isProxiedGroup } from "./call-groups.ts";
import { assignRewards, type RewardableCall } from "./sequence-rewards.ts";
import { orderedOnce } from "./span-order.ts";
import type { AdaptedSpans, DroppedCall, Triplet } from "./triplet.ts";
import { unseenCalls } from "./unseen-calls.ts";

type RewardedCall = CallEvidence & RewardableCall;

/** Spans of one attempt, as the recording proxy and the runner wrote them, in any order. */
export function adaptProxySpans(spans: readonly Span[], options: { log?: Logger } = {}): AdaptedSpans {
  const ordered = orderedOnce(spans);
  const groups = callGroups(ordered);
  const judges = groups.filter(isProxiedGroup).filter(rewardCalls(ordered));
  const { calls, dropped } = collectCalls(ordered, new Set(judges.flatMap((group) => group.spans)));
  const unassignedRewards = assignRewards(calls, ordered, options.log ?? silentLogger);
  const others = [
    ...judges.map((group) => droppedGroup(group, "in_reward")),
    ...unseenCalls(groups, { isSeen: isProxiedGroup, reason: "not_through_proxy" }),
  ];
  return {
    triplets: calls.map(toTriplet),
    dropped: [...dropped, ...others].sort(byPlace),
    unassignedRewards,
  };
}

function byPlace(one: DroppedCall, other: DroppedCall): number {
  return one.sequence_id - other.sequence_id;
}

function collectCalls(
  ordered: Span[],
  ignored: ReadonlySet<Span>,
): { calls: RewardedCall[]; dropped: DroppedCall[] } {
  const evidence = ordered
    .filter((span) => !ignored.has(span))
    .map(callEvidence)
    .filter((item) => item !== null);
  const answered = new Set(evidence.filter(canBeRewarded).map((item) => item.sequenceId));
  const calls: RewardedCall[] = [];
  const dropped: DroppedCall[] = [];
  for (const group of groupByCall(evidence)) {
    const call = told(group);
    const unused = unusedReason(group, call);
    if (unused !== null) dropped.push(droppedCall(call, unused));
    else if (canBeRewarded(call)) calls.push({ ...call, reward: null });
    // The normalised span beside a raw one says nothing new.
    else if (!answered.has(call.sequenceId)) dropped.push(droppedCall(call, call.inexactReason ?? "no_ids"));
    for (const sequenceId of repeatedAt(group, call)) {
      dropped.push(droppedCall({ ...call, sequenceId }, "duplicate"));
    }
  }
  calls.sort((one, other) => one.position - other.position);
  return { calls, dropped: oncePerCall(dropped) };
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

/**
 * What all spans of a call say together. The normalised one knows the end of what other routes than chat completions
 * answer; ids that one of them contradicts are not exact, whatever the others say.
 */
function told(group: CallEvidence[]): CallEvidence {
  const best = bestEvidence(group);
  const twins = group.filter(({ sequenceId }) => sequenceId === best.sequenceId);
  const first = (key: "checkpoint" | "finishReason" | "contradiction") =>
    twins.find((item) => item[key] !== null)?.[key] ?? null;
  return {
    ...best,
    isRaw: twins.some(({ isRaw }) => isRaw),
    checkpoint: best.checkpoint ?? first("checkpoint"),
    finishReason: best.finishReason ?? first("finishReason"),
    inexactReason: best.inexactReason ?? first("contradiction") ?? (agree(twins) ? null : "ids_disagree"),
  };
}

function agree(twins: CallEvidence[]): boolean {
  const lists = (key: "promptIds" | "responseIds") =>
    new Set(twins.map((item) => item[key].join()).filter((list) => list !== ""));
  return lists("promptIds").size <= 1 && lists("responseIds").size <= 1;
}

/** Spans of a call without a response id are told apart by nothing but their place. */
function oncePerCall(dropped: DroppedCall[]): DroppedCall[] {
  const nameless = new Set<string>();
  return dropped.filter(({ response_id, sequence_id, reason }) => {
    if (response_id !== null) return true;
    const key = `${sequence_id} ${reason}`;
    return !nameless.has(key) && nameless.add(key);
  });
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

function toTriplet(call: RewardedCall): Triplet {
  const exact = call.inexactReason === null;
  return {
    prompt: { token_ids: exact ? call.promptIds : [] },
    response: { token_ids: exact ? call.responseIds : [] },
    reward: call.reward,
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
