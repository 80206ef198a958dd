import { AglError, StoreRequestError } from "../../errors.ts";
import type { StoreApi } from "../../protocol/store-api.ts";
import { attemptKey, type AttemptIds } from "./attempt-key.ts";

/** The attempts that exist, so that nobody writes into a rollout that is not there; and those that were sealed. */
export interface KnownAttempts {
  /** Without asking anybody: an attempt that exists goes on existing. */
  isKnown(ids: AttemptIds): boolean;
  exists(ids: AttemptIds): Promise<boolean>;
  /** Its runner ends it: whatever comes from now on is late. */
  seal(ids: AttemptIds): void;
  isSealed(ids: AttemptIds): boolean;
}

export function createKnownAttempts(options: {
  store: Pick<StoreApi, "queryAttempts">;
  maxEntries?: number;
  patienceMs?: number;
}): KnownAttempts {
  const { store, maxEntries = 10_000, patienceMs = 10_000 } = options;
  const known = new BoundedSet(maxEntries);
  const sealed = new BoundedSet(maxEntries);
  const asking = new Map<string, Promise<boolean>>();

  const ask = async (key: string, ids: AttemptIds): Promise<boolean> => {
    const exists = await askStore(store, ids);
    if (exists) known.add(key);
    return exists;
  };

  return {
    isKnown: (ids) => known.has(attemptKey(ids)),
    async exists(ids) {
      const key = attemptKey(ids);
      if (known.has(key)) return true;
      let question = asking.get(key);
      if (question === undefined) {
        question = ask(key, ids).finally(() => asking.delete(key));
        asking.set(key, question);
      }
      return await inTime(question, patienceMs);
    },
    seal: (ids) => sealed.add(attemptKey(ids)),
    isSealed: (ids) => sealed.has(attemptKey(ids)),
  };
}

/** A store that hangs must not keep an agent for minutes. */
async function inTime<Value>(answer: Promise<Value>, limitMs: number): Promise<Value> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const message = `the store has not answered for ${limitMs / 1000} s`;
  const timer = setTimeout(() => reject(new AglError("store", message)), limitMs);
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Forgets what was not looked at for longest. */
class BoundedSet {
  readonly #keys = new Set<string>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  add(key: string): void {
    this.#keys.delete(key);
    this.#keys.add(key);
    const oldest = this.#keys.values().next().value;
    if (this.#keys.size > this.#max && oldest !== undefined) this.#keys.delete(oldest);
  }

  has(key: string): boolean {
    if (!this.#keys.has(key)) return false;
    this.add(key);
    return true;
  }
}

async function askStore(
  store: Pick<StoreApi, "queryAttempts">,
  { rolloutId, attemptId }: AttemptIds,
): Promise<boolean> {
  try {
    const { items } = await store.queryAttempts(rolloutId);
    return items.some((attempt) => attempt.attempt_id === attemptId);
  } catch (error) {
    if (error instanceof StoreRequestError && error.status === 404) return false;
    throw error;
  }
}
