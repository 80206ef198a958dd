import { type CallGroup, callGroups } from "../adapter/call-groups.ts";
import { isModelCall } from "../adapter/model-call-span.ts";
import { rewardOf } from "../adapter/rewards.ts";
import { byOrder } from "../adapter/span-order.ts";
import { spansBelow } from "../adapter/spans-below.ts";
import type { DroppedCall, Triplet } from "../adapter/triplet.ts";
import type { RecordedRow } from "../algorithm/rows.ts";
import { attributeKeys, spanNames } from "../protocol/semconv.ts";
import type { Attempt, AttemptedRollout, Rollout, Span } from "../protocol/types.ts";
import type { StoreReading } from "../store/store-reader.ts";
import { callStory, type CallStory, secondsOf } from "./call-story.ts";
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
  const ordered = spans.toSorted(byOrder);
  const below = spansBelow(ordered);
  const told = callGroups(ordered).map((group) => fates.judge(group, callStory(group, below)));
  const others = ordered
    .filter((span) => !isModelCall(span) && span.name !== spanNames.proxyRequest)
    .map((span) => otherEvent(span, fates));
  return [...told, ...others].sort((one, other) => one.sequence_id - other.sequence_id);
}

/** What becomes of the calls of an attempt. */
class Fates {
  readonly #triplets: Lookup<Triplet>;
  readonly #rows: Lookup<RecordedRow>;
  readonly #leftOut: Lookup<DroppedCall>;
  readonly #unassigned: Set<number>;
  readonly #isLatest: boolean;

  constructor(rollout: Rollout, spans: Span[], rules: RowRules, isLatest: boolean) {
    const { triplets, rows, leftOut, unassignedRewards } = rowsOfRollout(rollout, spans, rules);
    this.#triplets = lookup(triplets, ({ metadata }) => metadata);
    this.#rows = lookup(rows, ({ provenance }) => provenance);
    this.#leftOut = lookup(leftOut, (call) => call);
    this.#unassigned = new Set(unassignedRewards.map(({ sequence_id }) => sequence_id));
    this.#isLatest = isLatest;
  }

  judge(group: CallGroup, call: CallStory): JudgedCall {
    const triplet = this.#triplets(group);
    const row = this.#isLatest ? this.#rows(group)?.row : undefined;
    const leftOut = this.#leftOut(group)?.reason ?? "not_of_this_adapter";
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

type Place = { sequence_id: number; response_id: string | null };
type Lookup<Item> = (call: CallGroup) => Item | undefined;

/** By the place of any of a call's spans; by its response id, too, where several calls have one place. */
function lookup<Item>(items: readonly Item[], placeOf: (item: Item) => Place): Lookup<Item> {
  const byPlace = Map.groupBy(items, (item) => placeOf(item).sequence_id);
  return ({ spans, responseId }) => {
    const places = new Set(spans.map(({ sequence_id }) => sequence_id));
    const near = [...places].flatMap((place) => byPlace.get(place) ?? []);
    const named = near.find((item) => placeOf(item).response_id === responseId);
    const isNameless = (item: Item) => responseId === null || placeOf(item).response_id === null;
    return named ?? near.find(isNameless);
  };
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
