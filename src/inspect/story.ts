import { rewardOf } from "../adapter/rewards.ts";
import type { DroppedCall, Triplet } from "../adapter/triplet.ts";
import type { RecordedRow } from "../algorithm/rows.ts";
import { attributeKeys, spanNames } from "../protocol/semconv.ts";
import type { Attempt, AttemptedRollout, Rollout, Span } from "../protocol/types.ts";
import type { StoreReading } from "../store/store-reader.ts";
import { callStory, type CallStory, isCallSpan, secondsOf } from "./call-story.ts";
import { eachAttempt, eachSpan } from "./paging.ts";
import { rowsOfRollout, type RowRules } from "./rollout-rows.ts";

/** A call and what training would make of it. */
export interface JudgedCall extends CallStory {
  exact: boolean;
  /** Why the ids cannot be trusted. */
  inexact_reason: string | null;
  /** The reward that belongs to this very call. */
  reward: number | null;
  row: { tokens: number; labels: number; reward: number } | null;
  /** Why it becomes no row. */
  left_out: string | null;
}

export interface ToolStory {
  kind: "tool";
  sequence_id: number;
  name: string;
  arguments: string;
  result: string;
  is_error: boolean;
  seconds: number | null;
}

export interface RewardStory {
  kind: "reward";
  sequence_id: number;
  value: number;
  /** There was no call before it that it could belong to. */
  unassigned: boolean;
}

export interface ErrorStory {
  kind: "error";
  sequence_id: number;
  type: string;
  message: string;
  stack: string;
}

/** A span that is none of the others. */
export interface OtherStory {
  kind: "span";
  sequence_id: number;
  name: string;
  seconds: number | null;
}

export type StoryEvent = JudgedCall | ToolStory | RewardStory | ErrorStory | OtherStory;

export interface AttemptStory {
  attempt: Attempt;
  /** In order. */
  events: StoryEvent[];
}

export interface RolloutStory {
  rollout: Rollout | AttemptedRollout;
  attempts: AttemptStory[];
}

/** What happened in a rollout; in one of its attempts, when that is named. */
export async function tellStory(
  store: StoreReading,
  rollout: Rollout | AttemptedRollout,
  { attemptId, ...rules }: { attemptId: string | null } & RowRules,
): Promise<RolloutStory> {
  const all = await Array.fromAsync(eachAttempt(store, rollout.rollout_id));
  const latest = all.at(-1);
  const attempts: AttemptStory[] = [];
  for (const attempt of all) {
    if (attemptId !== null && attempt.attempt_id !== attemptId) continue;
    const spans = await Array.fromAsync(eachSpan(store, rollout.rollout_id, attempt.attempt_id));
    attempts.push({ attempt, events: eventsOf(rollout, spans, rules, attempt === latest) });
  }
  return { rollout, attempts };
}

function eventsOf(rollout: Rollout, spans: Span[], rules: RowRules, isLatest: boolean): StoryEvent[] {
  const fates = new Fates(rollout, spans, rules, isLatest);
  const calls = Map.groupBy(spans.filter(isCallSpan), ({ sequence_id }) => sequence_id);
  const told = [...calls].map(([sequenceId, ofCall]) => fates.judge(callStory(sequenceId, ofCall)));
  const others = spans
    .filter((span) => !isCallSpan(span) && span.name !== spanNames.proxyRequest)
    .map((span) => otherEvent(span, fates));
  return [...told, ...others].sort((one, other) => one.sequence_id - other.sequence_id);
}

/** What becomes of the calls of an attempt, by their place in it. */
class Fates {
  readonly #triplets: Map<number, Triplet>;
  readonly #rows: Map<number, RecordedRow>;
  readonly #leftOut: Map<number, DroppedCall>;
  readonly #unassigned: Set<number>;
  readonly #isLatest: boolean;

  constructor(rollout: Rollout, spans: Span[], rules: RowRules, isLatest: boolean) {
    const { triplets, rows, leftOut, unassignedRewards } = rowsOfRollout(rollout, spans, rules);
    this.#triplets = new Map(triplets.map((triplet) => [triplet.metadata.sequence_id, triplet]));
    this.#rows = new Map(rows.map((row) => [row.provenance.sequence_id, row]));
    this.#leftOut = new Map(leftOut.map((call) => [call.sequence_id, call]));
    this.#unassigned = new Set(unassignedRewards.map(({ sequence_id }) => sequence_id));
    this.#isLatest = isLatest;
  }

  judge(call: CallStory): JudgedCall {
    const triplet = this.#triplets.get(call.sequence_id);
    const row = this.#isLatest ? this.#rows.get(call.sequence_id)?.row : undefined;
    const leftOut = this.#leftOut.get(call.sequence_id)?.reason ?? "not_of_this_adapter";
    const exact = triplet?.metadata.exact ?? false;
    return {
      ...call,
      exact,
      inexact_reason: exact ? null : (triplet?.metadata.reason ?? leftOut),
      reward: triplet?.reward ?? null,
      row:
        row === undefined
          ? null
          : {
              tokens: row.input_ids.length,
              labels: triplet?.response.token_ids.length ?? 0,
              reward: row.reward,
            },
      left_out: row !== undefined ? null : this.#isLatest ? leftOut : "attempt_not_latest",
    };
  }

  isUnassigned(sequenceId: number): boolean {
    return this.#unassigned.has(sequenceId);
  }
}

function otherEvent(span: Span, fates: Fates): Exclude<StoryEvent, JudgedCall> {
  const { sequence_id, name, attributes } = span;
  const reward = rewardOf(span);
  if (reward !== null) {
    return { kind: "reward", sequence_id, value: reward, unassigned: fates.isUnassigned(sequence_id) };
  }
  if (name === spanNames.toolCall) {
    return {
      kind: "tool",
      sequence_id,
      name: String(attributes[attributeKeys.toolName] ?? "?"),
      arguments: String(attributes[attributeKeys.toolArguments] ?? ""),
      result: String(attributes[attributeKeys.toolResult] ?? ""),
      is_error: attributes[attributeKeys.toolError] === true,
      seconds: secondsOf(span),
    };
  }
  if (name === spanNames.exception) {
    return {
      kind: "error",
      sequence_id,
      type: String(attributes[attributeKeys.exceptionType] ?? "error"),
      message: String(attributes[attributeKeys.exceptionMessage] ?? ""),
      stack: String(attributes[attributeKeys.exceptionStacktrace] ?? ""),
    };
  }
  return { kind: "span", sequence_id, name, seconds: secondsOf(span) };
}
