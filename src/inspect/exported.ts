import { stringifyJson } from "../protocol/json.ts";
import type { Rollout } from "../protocol/types.ts";
import type { RecordReading } from "../store/record-reader.ts";
import { ChosenAttempts, latestAttemptOf } from "./chosen-attempts.ts";
import type { ExportKind } from "./export-kinds.ts";
import { eachResources, eachRollout, eachSpan, eachWorker, type RolloutFilter } from "./paging.ts";
import { rowsOfRollout, type RowRules } from "./rollout-rows.ts";
import { wholeStore } from "./whole-store.ts";

export interface ExportOptions {
  filter: RolloutFilter;
  /** Ids, or "latest"; all attempts when absent, and the latest for triplets. */
  attempts?: readonly string[];
  /** Of spans. */
  names?: readonly string[];
  rules: RowRules;
  /** Told of each call that is no triplet or row, and why. */
  onLeftOut(reason: string): void;
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
  const { attempts = kind === "triplets" ? ["latest"] : undefined } = options;
  const chosen = new ChosenAttempts(store, attempts);
  for await (const rollout of eachRollout(store, options.filter)) {
    if (kind === "rollouts") yield rollout;
    else if (kind === "attempts") yield* chosen.of(rollout);
    else if (kind === "spans") yield* spansOf(chosen, rollout, options.names);
    else if (kind === "triplets") yield* tripletsOf(store, chosen, rollout, options);
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
    const { triplets, leftOut } = rowsOfRollout(rollout, spans, options.rules);
    const answered = new Set(triplets.map(({ metadata }) => metadata.sequence_id));
    for (const { sequence_id, reason } of leftOut) if (!answered.has(sequence_id)) options.onLeftOut(reason);
    for (const triplet of triplets) yield { rollout_id, attempt_id, ...triplet };
  }
}

/** Of the latest attempt, as training takes them. */
async function* rowsOf(store: RecordReading, rollout: Rollout, options: ExportOptions) {
  const latest = await latestAttemptOf(store, rollout);
  if (latest === null) return;
  const spans = await Array.fromAsync(eachSpan(store, rollout.rollout_id, latest.attempt_id));
  const { rows, leftOut } = rowsOfRollout(rollout, spans, options.rules);
  for (const { reason } of leftOut) options.onLeftOut(reason);
  // Rows are for training; what a model is measured on is none unless it was asked for.
  const isMeasured = rollout.mode === "val" || rollout.mode === "test";
  if (isMeasured && options.filter.modes === undefined && options.filter.rolloutIds === undefined) {
    for (const _ of rows) options.onLeftOut(`mode_${rollout.mode}`);
    return;
  }
  for (const { row, provenance } of rows) yield { ...row, attempt_id: latest.attempt_id, ...provenance };
}
