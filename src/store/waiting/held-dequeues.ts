import type { DequeueRequest } from "../../protocol/store-api.ts";
import type { AttemptedRollout } from "../../protocol/types.ts";
import type { Hold } from "./hold.ts";

interface HeldDequeue {
  request: DequeueRequest;
  hold: Hold;
  claimed: AttemptedRollout[];
}

/** Dequeues whose empty answer is held until a rollout comes, first come first served. */
export class HeldDequeues {
  #held: HeldDequeue[] = [];

  get size(): number {
    return this.#held.length;
  }

  async wait(request: DequeueRequest, hold: Hold): Promise<AttemptedRollout[]> {
    const held: HeldDequeue = { request, hold, claimed: [] };
    this.#held.push(held);
    await hold.ended;
    this.#held = this.#held.filter((other) => other !== held);
    return held.claimed;
  }

  /**
   * Runs inside a write: claims for each in turn until one gets nothing. Nobody whose caller is gone
   * is served. The answers go out with `release`, after the commit.
   */
  claimInTurn(claim: (request: DequeueRequest) => AttemptedRollout[]): HeldDequeue[] {
    const served: HeldDequeue[] = [];
    for (const held of this.#held) {
      if (held.hold.isOver || held.claimed.length > 0) continue;
      held.claimed = claim(held.request);
      if (held.claimed.length === 0) break;
      served.push(held);
    }
    return served;
  }

  release(served: readonly HeldDequeue[]): void {
    for (const held of served) held.hold.release();
  }

  /** After a write that was not committed: what was claimed in it belongs to nobody. */
  forget(): void {
    for (const held of this.#held) if (!held.hold.isOver) held.claimed = [];
  }
}
