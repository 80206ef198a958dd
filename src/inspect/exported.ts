import type { Attempt, AttemptedRollout, Rollout, Span } from "../protocol/types.ts";
import type { StoreReading } from "../store/store-reader.ts";
import type { ExportKind } from "./export-kinds.ts";
import { eachAttempt, eachRollout, eachSpan, type RolloutFilter } from "./paging.ts";
import { rowsOfRollout, type RowRules } from "./rollout-rows.ts";

export interface ExportOptions {
  filter: RolloutFilter;
  rules: RowRules;
  /** Told of each call that is no triplet or row, and why. */
  onLeftOut(reason: string): void;
}

/** The objects of one kind, one after another; no more than the spans of one attempt are held at once. */
export async function* exported(
  kind: ExportKind,
  store: StoreReading,
  options: ExportOptions,
): AsyncGenerator<object> {
  for await (const rollout of eachRollout(store, options.filter)) {
    if (kind === "rollouts") yield rollout;
    else if (kind === "attempts") yield* eachAttempt(store, rollout.rollout_id);
    else if (kind === "spans") yield* eachSpan(store, rollout.rollout_id);
    else if (kind === "triplets") yield* tripletsOf(store, rollout, options);
    else yield* rowsOf(store, rollout, options);
  }
}

async function* tripletsOf(store: StoreReading, rollout: Rollout, options: ExportOptions) {
  const latest = await latestAttempt(store, rollout);
  if (latest === null) return;
  const { rollout_id } = rollout;
  const { triplets, leftOut } = rowsOfRollout(rollout, latest.spans, options.rules);
  const answered = new Set(triplets.map(({ metadata }) => metadata.sequence_id));
  for (const { sequence_id, reason } of leftOut) if (!answered.has(sequence_id)) options.onLeftOut(reason);
  for (const triplet of triplets) yield { rollout_id, attempt_id: latest.attemptId, ...triplet };
}

async function* rowsOf(store: StoreReading, rollout: Rollout, options: ExportOptions) {
  const latest = await latestAttempt(store, rollout);
  if (latest === null) return;
  const { rows, leftOut } = rowsOfRollout(rollout, latest.spans, options.rules);
  for (const { reason } of leftOut) options.onLeftOut(reason);
  // Rows are for training; what a model is measured on is none unless it was asked for.
  const isMeasured = rollout.mode === "val" || rollout.mode === "test";
  if (isMeasured && options.filter.modes === undefined && options.filter.rolloutIds === undefined) {
    for (const _ of rows) options.onLeftOut(`mode_${rollout.mode}`);
    return;
  }
  for (const { row, provenance } of rows) yield { ...row, attempt_id: latest.attemptId, ...provenance };
}

async function latestAttempt(
  store: StoreReading,
  rollout: Rollout | AttemptedRollout,
): Promise<{ attemptId: string; spans: Span[] } | null> {
  const attempt = await latestAttemptOf(store, rollout);
  if (attempt === null) return null;
  const spans = await Array.fromAsync(eachSpan(store, rollout.rollout_id, attempt.attempt_id));
  return { attemptId: attempt.attempt_id, spans };
}

/** Most stores send it along with the rollout. */
async function latestAttemptOf(
  store: StoreReading,
  rollout: Rollout | AttemptedRollout,
): Promise<Attempt | null> {
  if ("attempt" in rollout) return rollout.attempt;
  return (await Array.fromAsync(eachAttempt(store, rollout.rollout_id))).at(-1) ?? null;
}
