import { UsageError } from "../errors.ts";
import { nearestFew } from "../nearest.ts";
import type { AttemptedRollout, Rollout } from "../protocol/types.ts";
import type { StoreReading } from "../store/store-reader.ts";
import { eachAttempt, eachRollout } from "./paging.ts";

export interface FoundId {
  rollout: Rollout | AttemptedRollout;
  /** Null: the id is the rollout's. */
  attemptId: string | null;
}

const shownIds = 5;

/** The rollout or attempt with this id, or the only one whose id begins so; `ro-` and `at-` may be left out. */
export async function findId(store: StoreReading, given: string): Promise<FoundId> {
  const exact = await store.getRollout(given);
  if (exact !== null) return { rollout: exact, attemptId: null };
  const found: FoundId[] = [];
  const known: string[] = [];
  for await (const candidate of candidates(store)) {
    const id = candidate.attemptId ?? candidate.rollout.rollout_id;
    if (id === given) return candidate;
    known.push(id);
    if (given !== "" && (id.startsWith(given) || id.slice(3).startsWith(given))) found.push(candidate);
  }
  const [first, second] = found;
  if (first === undefined) throw unknown(given, known);
  if (second !== undefined) throw ambiguous(given, found);
  return first;
}

async function* candidates(store: StoreReading): AsyncGenerator<FoundId> {
  for await (const rollout of eachRollout(store)) {
    yield { rollout, attemptId: null };
    const latest = "attempt" in rollout ? rollout.attempt : null;
    if (latest !== null && latest.sequence_id === 1) yield { rollout, attemptId: latest.attempt_id };
    else {
      for await (const attempt of eachAttempt(store, rollout.rollout_id)) {
        yield { rollout, attemptId: attempt.attempt_id };
      }
    }
  }
}

function ambiguous(given: string, found: FoundId[]): UsageError {
  const ids = found.map(({ rollout, attemptId }) => attemptId ?? rollout.rollout_id);
  const more = ids.length > shownIds ? ` and ${ids.length - shownIds} more` : "";
  return new UsageError(
    `${ids.length} ids begin with ${given}: ${ids.slice(0, shownIds).join(", ")}${more}`,
    "give more of the id",
  );
}

function unknown(given: string, known: string[]): UsageError {
  const message = `there is no rollout or attempt ${JSON.stringify(given)}`;
  if (known.length === 0) return new UsageError(message, "this store holds no rollouts");
  return new UsageError(message, `the nearest ids are ${nearestFew(given, known, shownIds).join(", ")}`);
}
