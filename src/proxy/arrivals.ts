import type { StoreApi } from "../protocol/store-api.ts";
import type { AttemptEnds } from "./attempt-ends.ts";
import { attemptKey, type AttemptIds } from "./attempt-key.ts";

/** The number of a call that has none yet; the store begins with 1. */
export const unnumbered = 0;

/** What the store says of a call as it comes in. */
export interface Arrival {
  /** Its place among the spans of the rollout; `unnumbered` while the store is away. */
  sequenceId: number;
  /** The attempt had already ended. */
  ended: boolean;
}

const later: Arrival = { sequenceId: unnumbered, ended: false };

/**
 * Asks the store about each call beside its way to the model: nothing waits for it but the record. A call whose answer
 * does not come in time gets its number, and the verdict whether it was late, when its spans are written; so do those
 * of its attempt that follow, until all of them are stored, which keeps the calls of an attempt in order.
 */
export class Arrivals {
  readonly #store: Pick<StoreApi, "nextSequenceId">;
  readonly #ends: AttemptEnds;
  readonly #isAway: () => boolean;
  readonly #patienceMs: number;
  /** The latest question of each attempt: the next one is asked after it. */
  readonly #latest = new Map<string, Promise<Arrival>>();
  readonly #unnumbered = new Set<string>();

  constructor(options: {
    store: Pick<StoreApi, "nextSequenceId">;
    ends: AttemptEnds;
    /** Whether the store is known to be away. */
    isAway: () => boolean;
    patienceMs?: number;
  }) {
    this.#store = options.store;
    this.#ends = options.ends;
    this.#isAway = options.isAway;
    this.#patienceMs = options.patienceMs ?? 1_000;
  }

  /** Never fails. */
  announce(ids: AttemptIds): Promise<Arrival> {
    const key = attemptKey(ids);
    const before = this.#latest.get(key);
    const answer = this.#answer(key, ids, before).finally(() => {
      if (this.#latest.get(key) === answer) this.#latest.delete(key);
    });
    this.#latest.set(key, answer);
    return answer;
  }

  /** All calls of the attempt are stored. */
  settled(key: string): void {
    this.#unnumbered.delete(key);
  }

  async #answer(key: string, ids: AttemptIds, before: Promise<Arrival> | undefined): Promise<Arrival> {
    if (this.#isAway()) this.#unnumbered.add(key);
    if (!this.#unnumbered.has(key)) {
      const answer = await this.#ask(ids, before);
      if (answer !== null && !this.#unnumbered.has(key)) return answer;
      this.#unnumbered.add(key);
    }
    return later;
  }

  /** Null when there is no answer, or none in time. */
  async #ask(ids: AttemptIds, before: Promise<Arrival> | undefined): Promise<Arrival | null> {
    const { promise: late, resolve } = Promise.withResolvers<null>();
    const timer = setTimeout(() => resolve(null), this.#patienceMs);
    const end = this.#ends.endOf(ids);
    const number = async () => {
      await before;
      return await this.#store.nextSequenceId(ids.rolloutId, ids.attemptId);
    };
    const both = Promise.all([number(), end]).then(
      ([sequenceId, endedAt]) => ({ sequenceId, ended: endedAt !== null }),
      () => null,
    );
    const answer = await Promise.race([both, late]);
    clearTimeout(timer);
    return answer;
  }
}
