import type { AttemptStatus } from "../protocol/enums.ts";
import type { StoreApi } from "../protocol/store-api.ts";
import type { Attempt, AttemptedRollout, Rollout } from "../protocol/types.ts";
import { attemptKey, type AttemptIds } from "./attempt-key.ts";

export type AttemptSource = Pick<StoreApi, "queryAttempts" | "queryRollouts">;

interface Question extends AttemptIds {
  resolve(endedAt: number | null): void;
  reject(error: unknown): void;
}

const maxRollouts = 200;
const endedStatuses: readonly AttemptStatus[] = ["failed", "succeeded", "timeout"];

/**
 * When attempts ended, in Unix seconds; null while they run. Questions that come while one is under way are asked
 * together, so the store gets one request for all calls that arrive within one of its answers.
 */
export class AttemptEnds {
  readonly #store: AttemptSource;
  #waiting: Question[] = [];
  #asking = false;

  constructor(store: AttemptSource) {
    this.#store = store;
  }

  endOf(ids: AttemptIds): Promise<number | null> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ ...ids, resolve, reject });
      if (!this.#asking) void this.#askAll();
    });
  }

  async #askAll(): Promise<void> {
    this.#asking = true;
    // The calls of one tick go together.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#waiting.length > 0) {
      const questions = this.#waiting.splice(0, maxRollouts);
      try {
        const ends = await this.#ask(questions);
        for (const question of questions) question.resolve(ends.get(attemptKey(question)) ?? null);
      } catch (error) {
        for (const question of questions) question.reject(error);
      }
    }
    this.#asking = false;
  }

  async #ask(questions: AttemptIds[]): Promise<Map<string, number | null>> {
    const rolloutIds = [...new Set(questions.map(({ rolloutId }) => rolloutId))];
    const { items } = await this.#store.queryRollouts({ rollout_id_in: rolloutIds });
    const latest = new Map(items.map((rollout) => [rollout.rollout_id, latestOf(rollout)]));
    const ends = new Map<string, number | null>();
    for (const ids of questions) {
      const key = attemptKey(ids);
      const attempt = latest.get(ids.rolloutId);
      if (attempt === undefined || ends.has(key)) continue;
      const isLatest = attempt.attempt_id === ids.attemptId;
      ends.set(key, isLatest ? ownEnd(attempt) : await this.#endOfReplaced(ids));
    }
    return ends;
  }

  /** An attempt that has a successor is over, whatever its own status says. */
  async #endOfReplaced({ rolloutId, attemptId }: AttemptIds): Promise<number | null> {
    const { items } = await this.#store.queryAttempts(rolloutId);
    const attempt = items.find((item) => item.attempt_id === attemptId);
    if (attempt === undefined) return null;
    const later = items.filter(({ sequence_id }) => sequence_id > attempt.sequence_id);
    const times = [ownEnd(attempt), ...later.map(({ start_time }) => start_time)];
    const known = times.filter((time) => time !== null);
    return known.length === 0 ? null : Math.min(...known);
  }
}

function latestOf(rollout: Rollout | AttemptedRollout): Attempt | undefined {
  return "attempt" in rollout ? (rollout.attempt ?? undefined) : undefined;
}

/** One that ended nobody knows when takes no calls at all. */
function ownEnd({ status, end_time }: Attempt): number | null {
  return endedStatuses.includes(status) ? (end_time ?? 0) : null;
}
