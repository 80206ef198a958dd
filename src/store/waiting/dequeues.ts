import type { Logger } from "../../log.ts";
import { messageOf } from "../../errors.ts";
import type { DequeueRequest } from "../../protocol/store-api.ts";
import type { AttemptedRollout } from "../../protocol/types.ts";
import type { Operation } from "../file/write-queue.ts";
import type { Operations } from "../operations.ts";
import { HeldDequeues } from "./held-dequeues.ts";
import { type Hold, type Holds, maxWaitSeconds } from "./hold.ts";

export interface DequeueOutcome {
  claimed: AttemptedRollout[];
  /** Present when the answer is held. */
  waiting?: Promise<AttemptedRollout[]>;
}

export interface DequeuesOptions {
  operations: Pick<Operations, "claim" | "dequeue">;
  holds: Holds;
  log: Logger;
  write: <Value>(run: () => Value) => Promise<Value>;
}

/** Hands out rollouts: those who wait already come first. */
export class Dequeues {
  readonly #options: DequeuesOptions;
  readonly #held = new HeldDequeues();

  constructor(options: DequeuesOptions) {
    this.#options = options;
  }

  /** Serves those who wait, then the newcomer, who joins them in the same write when nothing is left. */
  async dequeue(newcomer: DequeueRequest, signal?: AbortSignal): Promise<DequeueOutcome> {
    const { operations, holds, write } = this.#options;
    let hold: Hold | undefined;
    try {
      const { served, ...outcome } = await write(() => {
        const served = this.#held.claimInTurn((request) => operations.claim(request));
        if (signal?.aborted) return { served, claimed: [] };
        const claimed = operations.dequeue(newcomer);
        const seconds = Math.min(newcomer.wait_seconds ?? 0, maxWaitSeconds);
        if (claimed.length > 0 || seconds <= 0) return { served, claimed };
        hold = holds.open(seconds, signal);
        return { served, claimed, waiting: this.#held.wait(newcomer, hold) };
      });
      this.#held.release(served);
      return outcome;
    } catch (error) {
      hold?.release();
      this.#held.forget();
      throw error;
    }
  }

  /** What is queued in a commit goes to those who wait for it in the same one. Undefined when nobody waits. */
  serveHeld(): Operation | undefined {
    if (this.#held.size === 0) return undefined;
    const { operations, log } = this.#options;
    return {
      run: () => this.#held.claimInTurn((request) => operations.claim(request)),
      resolve: (served) => this.#held.release(served),
      reject: (error) => {
        this.#held.forget();
        log.error("waiting runners could not be served", { error: messageOf(error) });
      },
    };
  }
}
