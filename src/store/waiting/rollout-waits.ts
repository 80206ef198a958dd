import { isFinished } from "../../protocol/enums.ts";
import type { Hold } from "./hold.ts";
import type { StatusChange } from "../tables/rollout-table.ts";

interface Wait {
  hold: Hold;
  known: number;
  unfinished: Set<string>;
  until: "all" | "any";
}

/** Who waits for which rollouts. Woken by the commit that finishes one, never by polling (E-19). */
export class RolloutWaits {
  readonly #waitsOf = new Map<string, Set<Wait>>();

  /** Ends when all, or any, of the rollouts are finished, or when the hold ends for another reason. */
  async until(
    until: "all" | "any",
    rollouts: readonly { rolloutId: string; finished: boolean }[],
    hold: Hold,
  ): Promise<void> {
    const unfinished = new Set(
      rollouts.filter(({ finished }) => !finished).map(({ rolloutId }) => rolloutId),
    );
    const wait: Wait = { hold, known: rollouts.length, unfinished, until };
    for (const { rolloutId } of rollouts) this.#add(rolloutId, wait);
    releaseIfDone(wait);
    await hold.ended;
    for (const { rolloutId } of rollouts) this.#remove(rolloutId, wait);
  }

  /** Statuses in the order in which a commit wrote them: a reopened rollout is waited for again (V-3). */
  onStatuses(changes: readonly StatusChange[]): void {
    const touched = new Set<Wait>();
    for (const { rolloutId, status } of changes) {
      for (const wait of this.#waitsOf.get(rolloutId) ?? []) {
        if (isFinished(status)) wait.unfinished.delete(rolloutId);
        else wait.unfinished.add(rolloutId);
        touched.add(wait);
      }
    }
    for (const wait of touched) releaseIfDone(wait);
  }

  #add(rolloutId: string, wait: Wait): void {
    const waits = this.#waitsOf.get(rolloutId);
    if (waits === undefined) this.#waitsOf.set(rolloutId, new Set([wait]));
    else waits.add(wait);
  }

  #remove(rolloutId: string, wait: Wait): void {
    const waits = this.#waitsOf.get(rolloutId);
    waits?.delete(wait);
    if (waits?.size === 0) this.#waitsOf.delete(rolloutId);
  }
}

function releaseIfDone({ hold, known, unfinished, until }: Wait): void {
  const done = until === "all" ? unfinished.size === 0 : unfinished.size < known || known === 0;
  if (done) hold.release();
}
