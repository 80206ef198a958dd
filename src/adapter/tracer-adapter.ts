import { UsageError } from "../errors.ts";
import { type Logger, silentLogger } from "../log.ts";
import { attributeKeys } from "../protocol/semconv.ts";
import type { Span } from "../protocol/types.ts";
import { callGroups } from "./call-groups.ts";
import { inexactReason } from "./call-marks.ts";
import { repairHierarchy } from "./hierarchy-repair.ts";
import { isTracedCall } from "./model-call-span.ts";
import { textOf } from "./opaque.ts";
import { matchRewards, type RewardMatch } from "./reward-matching.ts";
import { byOrder, orderedOnce } from "./span-order.ts";
import { buildTree, type SpanNode } from "./span-tree.ts";
import { type FoundCall, TracedCalls } from "./traced-calls.ts";
import type { AdaptedSpans, Triplet } from "./triplet.ts";
import { unseenCalls } from "./unseen-calls.ts";

export interface TracerAdapterOptions {
  /** Nests spans by their times where the parents are not known. */
  repairHierarchy?: boolean;
  /** Regular expression for the names of spans that are calls; without it, those of every known tracer. */
  llmCallMatch?: string;
  /** Regular expression for the agents whose calls count; without it, those of every agent. */
  agentMatch?: string | null;
  /** Leaves out calls made while finding a reward. */
  excludeLlmCallInReward?: boolean;
  rewardMatch?: RewardMatch;
  /** Takes the place of the last call's reward. */
  finalReward?: number;
  log?: Logger;
}

/** Spans of one attempt, as tracers on the agent's side and the runner wrote them, in any order. */
export function adaptTracerSpans(spans: readonly Span[], options: TracerAdapterOptions = {}): AdaptedSpans {
  const rules = {
    isCall: callRule(options.llmCallMatch),
    agent: options.agentMatch == null ? null : expression("agentMatch", options.agentMatch),
    excludeInReward: options.excludeLlmCallInReward ?? true,
  };
  const inPlace = orderedOnce(spans);
  const root = buildTree(inPlace, options.log ?? silentLogger);
  if (root === null) return { triplets: [], dropped: [], unassignedRewards: [] };
  if (options.repairHierarchy ?? true) repairHierarchy(root);
  const { found, dropped, looked } = new TracedCalls(root, rules);
  const unseen = unseenCalls(callGroups(inPlace), {
    isSeen: (group) => group.spans.some((span) => looked.has(span)),
    reason: "not_traced",
  });
  const triplets = new Map([...found].map(([node, call]) => [node, toTriplet(call)]));
  const unassigned = matchRewards(
    root,
    (node) => triplets.has(node),
    options.rewardMatch ?? "first_occurrence",
    (node, reward) => ((triplets.get(node) as Triplet).reward = reward),
  );
  const ordered = inOrder(triplets);
  const last = ordered.at(-1);
  if (last !== undefined && options.finalReward !== undefined) last.reward = options.finalReward;
  return {
    triplets: ordered,
    dropped: [...dropped, ...unseen].sort((one, other) => one.sequence_id - other.sequence_id),
    unassignedRewards: unassigned
      .map(({ sequenceId, reward }) => ({ sequence_id: sequenceId, value: reward as number }))
      .sort((one, other) => one.sequence_id - other.sequence_id),
  };
}

function callRule(match: string | undefined): (span: Span) => boolean {
  if (match === undefined) return isTracedCall;
  const pattern = expression("llmCallMatch", match);
  return ({ name }) => pattern.test(name);
}

function expression(name: string, text: string): RegExp {
  try {
    return new RegExp(text);
  } catch {
    throw new UsageError(`${name} is ${JSON.stringify(text)}`, "Give a regular expression.");
  }
}

/** The walk was depth-first, but rewards flow back in time. */
function inOrder(triplets: Map<SpanNode, Triplet>): Triplet[] {
  return [...triplets]
    .sort(([one], [other]) => byOrder(one.span as Span, other.span as Span))
    .map(([, triplet]) => triplet);
}

function toTriplet({ span, told, agentName, content }: FoundCall): Triplet {
  const reason = inexactReason(told.attributes, content);
  const exact = reason === null;
  return {
    prompt: {
      token_ids: exact ? content.promptIds : [],
      raw_content: content.prompt,
      image_urls: content.imageUrls,
    },
    response: {
      token_ids: exact ? (content.responseIds[0] ?? []) : [],
      raw_content: content.response,
      ...(content.logprobs === undefined ? {} : { logprobs: content.logprobs }),
    },
    reward: null,
    metadata: {
      response_id: content.responseId,
      sequence_id: span.sequence_id,
      checkpoint: textOf(told.attributes[attributeKeys.checkpoint]),
      exact,
      reason,
      finish_reason: content.finishReason,
      agent_name: agentName,
      request: content.request,
      response: content.answer,
    },
  };
}
