import { adaptMessages } from "../adapter/messages-adapter.ts";
import { flowBack } from "../algorithm/propagate.ts";
import { isFinished } from "../protocol/enums.ts";
import { stringifyJson } from "../protocol/json.ts";
import type { Rollout } from "../protocol/types.ts";
import type { RecordReading } from "../store/record-reader.ts";
import { ChosenAttempts, latestAttemptOf } from "./chosen-attempts.ts";
import type { ExportKind } from "./export-kinds.ts";
import { eachResources, eachRollout, eachSpan, eachWorker, type RolloutFilter } from "./paging.ts";
import { rowsOfRollout, type RowRules, whyNoRows } from "./rollout-rows.ts";
import { wholeStore } from "./whole-store.ts";

export interface ExportOptions {
  filter: RolloutFilter;
  /** Ids, or "latest"; all attempts when absent, and the latest for triplets and messages. */
  attempts?: readonly string[];
  /** Of spans. */
  names?: readonly string[];
  rules: RowRules;
  /** Told of each call that becomes no line, and why. */
  onLeftOut(reason: string): void;
  /** Told of what has no call at all. */
  onWithoutCall(what: "reward" | "rollout"): void;
}

/** The lines of one kind, one after another; no more than the spans of one attempt are held at once. */
export async function* exportedLines(
  kind: ExportKind,
  store: RecordReading,
  options: ExportOptions,
): AsyncGenerator<string> {
  if (kind === "all") return yield* wholeStore(store, options.filter);
  for await (const object of exported(kind, store, options)) yield stringifyJson(object);
}

async function* exported(
  kind: Exclude<ExportKind, "all">,
  store: RecordReading,
  options: ExportOptions,
): AsyncGenerator<object> {
  if (kind === "resources") return yield* eachResources(store);
  if (kind === "workers") return yield* eachWorker(store);
  const ofLatest = kind === "triplets" || kind === "messages";
  const { attempts = ofLatest ? ["latest"] : undefined } = options;
  const chosen = new ChosenAttempts(store, attempts);
  for await (const rollout of eachRollout(store, options.filter)) {
    if (kind === "rollouts") yield rollout;
    else if (kind === "attempts") yield* chosen.of(rollout);
    else if (kind === "spans") yield* spansOf(chosen, rollout, options.names);
    else if (kind === "triplets") yield* tripletsOf(store, chosen, rollout, options);
    else if (kind === "messages") yield* messagesOf(store, chosen, rollout, options);
    else yield* rowsOf(store, rollout, options);
  }
  chosen.requireAll();
}

async function* spansOf(chosen: ChosenAttempts, rollout: Rollout, names: readonly string[] | undefined) {
  for await (const span of chosen.spansOf(rollout)) {
    if (names === undefined || names.includes(span.name)) yield span;
  }
}

async function* tripletsOf(
  store: RecordReading,
  chosen: ChosenAttempts,
  rollout: Rollout,
  options: ExportOptions,
) {
  const { rollout_id } = rollout;
  for await (const { attempt_id } of chosen.of(rollout)) {
    const spans = await Array.fromAsync(eachSpan(store, rollout_id, attempt_id));
    const { triplets, dropped, unassignedRewards } = rowsOfRollout(rollout, spans, options.rules);
    noteMissing(rollout, triplets.length + dropped.length, unassignedRewards, options);
    for (const { reason } of dropped) options.onLeftOut(reason);
    for (const triplet of triplets) yield { rollout_id, attempt_id, ...triplet };
  }
}

/** Of the latest attempt, as training takes them. */
async function* rowsOf(store: RecordReading, rollout: Rollout, options: ExportOptions) {
  const latest = await latestAttemptOf(store, rollout);
  if (latest === null) return;
  const spans = await Array.fromAsync(eachSpan(store, rollout.rollout_id, latest.attempt_id));
  const { rows, leftOut, unassignedRewards } = rowsOfRollout(rollout, spans, options.rules);
  noteMissing(rollout, rows.length + leftOut.length, unassignedRewards, options);
  for (const { reason } of leftOut) options.onLeftOut(reason);
  const measured = whyMeasured(rollout, options.filter);
  if (measured !== null) {
    for (const _ of rows) options.onLeftOut(measured);
    return;
  }
  for (const { row, provenance } of rows) yield { ...row, attempt_id: latest.attempt_id, ...provenance };
}

/** In words, of the same rollouts as rows unless others are asked for; calls without ids or rewards included. */
async function* messagesOf(
  store: RecordReading,
  chosen: ChosenAttempts,
  rollout: Rollout,
  options: ExportOptions,
) {
  const { filter, rules, onLeftOut } = options;
  const { rollout_id } = rollout;
  const refusal = filter.statuses === undefined ? whyNoRows(rollout, rules.rule) : null;
  for await (const { attempt_id } of chosen.of(rollout)) {
    const spans = await Array.fromAsync(eachSpan(store, rollout_id, attempt_id));
    const { calls, dropped, unassignedRewards } = adaptMessages(spans);
    noteMissing(rollout, calls.length + dropped.length, unassignedRewards, options);
    for (const { reason } of dropped) onLeftOut(reason);
    const reason = refusal ?? whyMeasured(rollout, filter);
    if (reason !== null) for (const _ of calls) onLeftOut(reason);
    if (reason !== null) continue;
    const rewards = flowBack(calls.map(({ reward }) => reward));
    for (const [index, { messages, tools, reward: _, ...call }] of calls.entries()) {
      yield { messages, tools, reward: rewards[index] ?? null, rollout_id, attempt_id, ...call };
    }
  }
}

function noteMissing(
  { status }: Rollout,
  calls: number,
  unassignedRewards: readonly unknown[],
  { onWithoutCall }: ExportOptions,
): void {
  if (calls === 0 && isFinished(status)) onWithoutCall("rollout");
  for (const _ of unassignedRewards) onWithoutCall("reward");
}

/** Rows are for training; what a model is measured on is none unless it was asked for. */
function whyMeasured({ mode }: Rollout, { modes, rolloutIds }: RolloutFilter): string | null {
  if (modes !== undefined || rolloutIds !== undefined) return null;
  return mode === "val" || mode === "test" ? `mode_${mode}` : null;
}
