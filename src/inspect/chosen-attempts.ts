import { UsageError } from "../errors.ts";
import type { Attempt, AttemptedRollout, Rollout, Span } from "../protocol/types.ts";
import type { StoreReading } from "../store/store-reader.ts";
import { eachAttempt, eachSpan } from "./paging.ts";

/** The attempts that were asked for by id or as `latest`; all of them when nothing was. */
export class ChosenAttempts {
  readonly #store: StoreReading;
  readonly #chosen: readonly string[] | undefined;
  readonly #missing: Set<string>;

  constructor(store: StoreReading, chosen: readonly string[] | undefined) {
    this.#store = store;
    this.#chosen = chosen;
    this.#missing = new Set(chosen?.filter((id) => id !== "latest"));
  }

  async *of(rollout: Rollout | AttemptedRollout): AsyncGenerator<Attempt> {
    const chosen = this.#chosen;
    const latest = chosen?.includes("latest") ? await latestAttemptOf(this.#store, rollout) : null;
    for await (const attempt of eachAttempt(this.#store, rollout.rollout_id)) {
      const { attempt_id } = attempt;
      const isNamed = chosen === undefined || chosen.includes(attempt_id);
      if (!isNamed && attempt_id !== latest?.attempt_id) continue;
      this.#missing.delete(attempt_id);
      yield attempt;
    }
  }

  async *spansOf(rollout: Rollout | AttemptedRollout): AsyncGenerator<Span> {
    const { rollout_id } = rollout;
    if (this.#chosen === undefined) return yield* eachSpan(this.#store, rollout_id);
    for await (const { attempt_id } of this.of(rollout)) yield* eachSpan(this.#store, rollout_id, attempt_id);
  }

  /** Called when all rollouts were looked through. */
  requireAll(): void {
    if (this.#missing.size === 0) return;
    throw new UsageError(
      `--attempt: the chosen rollouts have no attempt ${[...this.#missing].join(", ")}`,
      "`agl show` finds ids by their beginning; `latest` takes the last attempt of each rollout",
    );
  }
}

/** Most stores send it along with the rollout. */
export async function latestAttemptOf(
  store: StoreReading,
  rollout: Rollout | AttemptedRollout,
): Promise<Attempt | null> {
  if ("attempt" in rollout) return rollout.attempt;
  return (await Array.fromAsync(eachAttempt(store, rollout.rollout_id))).at(-1) ?? null;
}
