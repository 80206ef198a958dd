import { StoreRequestError } from "../errors.ts";
import type { Span } from "../protocol/types.ts";
import type { AttemptRow, RolloutRow } from "./tables/rows.ts";
import { attemptAfterSpan, rolloutAfterSpan } from "./rules/span-effects.ts";
import type { Tables } from "./tables/tables.ts";
import { unknownAttempt, unknownRollout } from "./unknown-ids.ts";

export interface SpansOutcome {
  stored: number;
  duplicates: number;
  refusals: Map<number, StoreRequestError>;
}

/** Stores spans, inside a transaction of the write queue. */
export class SpanWrites {
  readonly #tables: Tables;
  readonly #now: () => number;

  constructor(tables: Tables, now: () => number) {
    this.#tables = tables;
    this.#now = now;
  }

  /** Each span is stored, a duplicate, or refused on its own; effects are applied once per attempt. */
  add(spans: readonly Span[]): SpansOutcome {
    const outcome: SpansOutcome = { stored: 0, duplicates: 0, refusals: new Map() };
    const touched = new Map<AttemptRow, RolloutRow>();
    const find = this.#attemptFinder();
    spans.forEach((span, index) => {
      this.#tables.spans.raiseSequence(span.rollout_id, span.sequence_id);
      const found = find(span.rollout_id, span.attempt_id);
      if (found instanceof StoreRequestError) {
        outcome.refusals.set(index, found);
      } else if (this.#tables.spans.insert(span)) {
        outcome.stored += 1;
        touched.set(found.attempt, found.rollout);
      } else {
        outcome.duplicates += 1;
      }
    });
    for (const [attempt, rollout] of touched) this.#applyEffects(attempt, rollout);
    return outcome;
  }

  #applyEffects(attempt: AttemptRow, rollout: RolloutRow): void {
    const row = attemptAfterSpan(attempt, this.#now());
    this.#tables.attempts.save(row);
    if (row.sequence_id !== rollout.attempt_count) return;
    const state = rolloutAfterSpan(rollout, row);
    if (state !== null) this.#tables.rollouts.setState(rollout.rollout_id, state);
  }

  /** P-1, looked up once per attempt of a batch. */
  #attemptFinder() {
    type Found = { rollout: RolloutRow; attempt: AttemptRow } | StoreRequestError;
    const known = new Map<string, Found>();
    const lookUp = (rolloutId: string, attemptId: string): Found => {
      const rollout = this.#tables.rollouts.get(rolloutId);
      if (rollout === null) return unknownRollout(rolloutId);
      const attempt = this.#tables.attempts.get(rolloutId, attemptId);
      return attempt === null ? unknownAttempt(rolloutId, attemptId) : { rollout, attempt };
    };
    return (rolloutId: string, attemptId: string): Found => {
      const key = JSON.stringify([rolloutId, attemptId]);
      const found = known.get(key) ?? lookUp(rolloutId, attemptId);
      known.set(key, found);
      return found;
    };
  }
}
