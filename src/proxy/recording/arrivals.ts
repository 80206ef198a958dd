import type { NumberRequest, StoreApi } from "../../protocol/store-api.ts";
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

interface Announcement {
  key: string;
  request: NumberRequest;
  resolve(arrival: Arrival): void;
}

const later: Arrival = { sequenceId: unnumbered, ended: false };
const maxAnnouncements = 1_000;
/** Then a call is asked about at the latest. Few models have answered by then. */
const delayMs = 5;

/**
 * Asks the store about each call beside its way to the model. Calls that come soon after each other, or while one
 * question is under way, are asked about together, in their order, so that a store gets few requests from many calls.
 * A call whose answer does not come in time gets its number, and the verdict whether it was late, when its spans are
 * written; so do those of its attempt that follow, until all of them are stored: that keeps their order.
 */
export class Arrivals {
  readonly #store: Pick<StoreApi, "nextSequenceIds">;
  readonly #isAway: () => boolean;
  readonly #patienceMs: number;
  readonly #unnumbered = new Set<string>();
  #waiting: Announcement[] = [];
  #asking = false;
  #timer: Timer | undefined;

  constructor(options: {
    store: Pick<StoreApi, "nextSequenceIds">;
    /** Whether the store is known to be away. */
    isAway: () => boolean;
    patienceMs?: number;
  }) {
    this.#store = options.store;
    this.#isAway = options.isAway;
    this.#patienceMs = options.patienceMs ?? 5_000;
  }

  /** Never fails. */
  announce(ids: AttemptIds): Promise<Arrival> {
    const key = attemptKey(ids);
    if (this.#isAway()) this.#unnumbered.add(key);
    if (this.#unnumbered.has(key)) return Promise.resolve(later);
    return new Promise((resolve) => {
      const timer = setTimeout(() => settle(later), this.#patienceMs);
      const settle = (arrival: Arrival) => {
        clearTimeout(timer);
        const inOrder = arrival.sequenceId !== unnumbered && !this.#unnumbered.has(key);
        if (!inOrder) this.#unnumbered.add(key);
        resolve(inOrder ? arrival : later);
      };
      const request = { rollout_id: ids.rolloutId, attempt_id: ids.attemptId };
      this.#waiting.push({ key, request, resolve: settle });
      this.#timer ??= setTimeout(() => this.askNow(), delayMs);
    });
  }

  /** An answer is about to reach its agent. */
  askNow(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (!this.#asking) void this.#askAll();
  }

  /** All calls of the attempt are stored. */
  settled(key: string): void {
    this.#unnumbered.delete(key);
  }

  async #askAll(): Promise<void> {
    this.#asking = true;
    while (this.#waiting.length > 0) {
      const group = this.#waiting.splice(0, maxAnnouncements);
      // Nobody waits any more for what took too long.
      const open = group.filter(({ key }) => !this.#unnumbered.has(key));
      for (const announcement of group) if (!open.includes(announcement)) announcement.resolve(later);
      if (open.length > 0) await this.#ask(open);
    }
    this.#asking = false;
  }

  async #ask(group: Announcement[]): Promise<void> {
    try {
      const numbers = await this.#store.nextSequenceIds(group.map(({ request }) => request));
      for (const [index, { resolve }] of group.entries()) {
        const number = numbers[index];
        if (number === undefined) resolve(later);
        else resolve({ sequenceId: number.sequence_id, ended: number.ended_at !== null });
      }
    } catch {
      for (const { resolve } of group) resolve(later);
    }
  }
}
