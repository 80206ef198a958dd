import { StoreRequestError } from "../errors.ts";
import type { AttemptStatus } from "../protocol/enums.ts";
import type { StoreApi } from "../protocol/store-api.ts";

export type AttemptState = "unknown" | "running" | "ended";

export interface KnownAttempts {
  stateOf(rolloutId: string, attemptId: string): Promise<AttemptState>;
  /** The next call asks the store again. */
  forget(rolloutId: string, attemptId: string): void;
}

interface Entry {
  state: AttemptState;
  askedAt: number;
}

const endedStatuses: readonly AttemptStatus[] = ["failed", "succeeded", "timeout"];

/**
 * Whether a call's ids exist, so that nobody writes into a rollout that is not there. What the store said holds
 * for `freshMs`; an attempt that ends in between is noticed then, so it is short: a late call has to be marked as one.
 */
export function createKnownAttempts(options: {
  store: Pick<StoreApi, "queryAttempts">;
  now: () => number;
  maxEntries?: number;
  freshMs?: number;
}): KnownAttempts {
  const { store, now, maxEntries = 10_000, freshMs = 1_000 } = options;
  const entries = new Map<string, Entry>();
  const asking = new Map<string, Promise<AttemptState>>();

  const ask = async (key: string, rolloutId: string, attemptId: string): Promise<AttemptState> => {
    const state = await askStore(store, rolloutId, attemptId);
    entries.delete(key);
    if (state !== "unknown") entries.set(key, { state, askedAt: now() });
    const oldest = entries.keys().next().value;
    if (entries.size > maxEntries && oldest !== undefined) entries.delete(oldest);
    return state;
  };

  return {
    async stateOf(rolloutId, attemptId) {
      const key = keyOf(rolloutId, attemptId);
      const entry = entries.get(key);
      if (entry !== undefined && now() - entry.askedAt < freshMs) return entry.state;
      let question = asking.get(key);
      if (question === undefined) {
        question = ask(key, rolloutId, attemptId).finally(() => asking.delete(key));
        asking.set(key, question);
      }
      return await question;
    },
    forget: (rolloutId, attemptId) => void entries.delete(keyOf(rolloutId, attemptId)),
  };
}

async function askStore(
  store: Pick<StoreApi, "queryAttempts">,
  rolloutId: string,
  attemptId: string,
): Promise<AttemptState> {
  let attempts;
  try {
    attempts = (await store.queryAttempts(rolloutId)).items;
  } catch (error) {
    if (error instanceof StoreRequestError && error.status === 404) return "unknown";
    throw error;
  }
  const attempt = attempts.find((item) => item.attempt_id === attemptId);
  if (attempt === undefined) return "unknown";
  const latest = attempts.every((item) => item.sequence_id <= attempt.sequence_id);
  return latest && !endedStatuses.includes(attempt.status) ? "running" : "ended";
}

function keyOf(rolloutId: string, attemptId: string): string {
  return JSON.stringify([rolloutId, attemptId]);
}
