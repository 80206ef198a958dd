import { type Logger, silentLogger } from "../log.ts";
import { attributeKeys, spanNames } from "../protocol/semconv.ts";
import type { Span } from "../protocol/types.ts";
import { rewardCalls } from "./below-reward.ts";
import { type CallGroup, callGroups, droppedGroup } from "./call-groups.ts";
import { unusedReason } from "./call-marks.ts";
import { type ChatMessage, type ChatTool, type Conversation, conversationOf } from "./conversation.ts";
import { finishReasonOf } from "./finish-reason.ts";
import { member, textOf } from "./opaque.ts";
import { assignRewards } from "./sequence-rewards.ts";
import { orderedOnce } from "./span-order.ts";
import { spansBelow } from "./spans-below.ts";
import type { AdaptedSpans, DroppedCall } from "./triplet.ts";

/** One call in words, as tools that train from text read it. */
export interface RecordedMessages {
  /** What the model was given, and its answer last. */
  messages: ChatMessage[];
  tools: ChatTool[] | null;
  /** The call's own. */
  reward: number | null;
  response_id: string | null;
  sequence_id: number;
  model: string | null;
  checkpoint: string | null;
  finish_reason: string | null;
}

export interface AdaptedMessages {
  /** In order. */
  calls: RecordedMessages[];
  dropped: DroppedCall[];
  unassignedRewards: AdaptedSpans["unassignedRewards"];
}

/** Spans of one attempt, by whatever proxy and tracers, in any order; each call once. Token ids are not needed. */
export function adaptMessages(spans: readonly Span[], options: { log?: Logger } = {}): AdaptedMessages {
  const ordered = orderedOnce(spans);
  const whyUnused = unusedReasons(ordered);
  const dropped: DroppedCall[] = [];
  const answered: { group: CallGroup; sequenceId: number; reward: number | null }[] = [];
  for (const group of callGroups(ordered)) {
    const reason = whyUnused(group);
    if (reason === null) answered.push({ group, sequenceId: group.sequenceId, reward: null });
    else dropped.push(droppedGroup(group, reason));
  }
  const unassignedRewards = assignRewards(answered, ordered, options.log ?? silentLogger);
  const below = spansBelow(ordered);
  const calls: RecordedMessages[] = [];
  for (const { group, reward } of answered) {
    const conversation = conversationOf(group.spans, below);
    const problem = problemOf(conversation);
    if (problem === null) calls.push({ ...recordedMessages(group, conversation), reward });
    else dropped.push(droppedGroup(group, problem));
  }
  dropped.sort((one, other) => one.sequence_id - other.sequence_id);
  return { calls, dropped, unassignedRewards };
}

function unusedReasons(ordered: readonly Span[]): (group: CallGroup) => string | null {
  const seen = new Set<string>();
  const isJudges = rewardCalls(ordered);
  return (group) => {
    const { responseId, spans } = group;
    if (responseId !== null && seen.has(responseId)) return "duplicate";
    if (responseId !== null) seen.add(responseId);
    // A try that failed may lie beside the answer.
    const told = spans.find(({ name }) => name === spanNames.rawRequest) ?? spans[0];
    if (isJudges(group)) return "in_reward";
    const marks = spans.map(unusedReason).find((reason) => reason !== null && reason !== "failed");
    return marks ?? (told === undefined ? null : unusedReason(told));
  };
}

function problemOf({ messages, answer, problem }: Conversation): string | null {
  if (problem !== undefined) return problem;
  if (messages.length === 0) return "no_messages";
  if (answer === null) return "no_answer";
  if (messages.some(({ role }) => role === "")) return "message_without_role";
  return [...messages, answer].every(({ content }) => isChatContent(content)) ? null : "unknown_content";
}

const chatParts = new Set(["text", "image_url", "input_audio", "video_url", "audio_url", "file", "refusal"]);

/** What only another API knows cannot be shown to a chat template. */
function isChatContent(content: unknown): boolean {
  if (content === null || typeof content === "string") return true;
  return (
    Array.isArray(content) && content.every((part) => chatParts.has(String(member(part, "type") ?? "none")))
  );
}

function recordedMessages(
  { spans, sequenceId, responseId }: CallGroup,
  { messages, answer, tools, finishReason }: Conversation,
): Omit<RecordedMessages, "reward"> {
  const attribute = (key: string) =>
    spans.map(({ attributes }) => textOf(attributes[key])).find((text) => text !== null) ?? null;
  const { role, ...said } = answer as ChatMessage;
  return {
    messages: [...messages, { role: role === "" ? "assistant" : role, ...said }],
    tools,
    response_id: responseId,
    sequence_id: sequenceId,
    model: attribute("gen_ai.request.model") ?? attribute("llm.model_name"),
    checkpoint: attribute(attributeKeys.checkpoint),
    finish_reason: finishReason ?? finishReasonOf(spans),
  };
}
