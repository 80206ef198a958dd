import { AglError } from "../../errors.ts";

/** No answer is held longer for our `wait_seconds`, so that a vanished peer is noticed. */
export const maxWaitSeconds = 60;

/** setTimeout fires at once beyond 2^31 ms. */
const longestTimerMs = 2_000_000_000;

/** An answer that is held back until it is released, its time is over, its caller is gone, or the store closes. */
export interface Hold {
  readonly ended: Promise<void>;
  readonly isOver: boolean;
  release(): void;
}

/** All answers that are held at the moment; bounded, and ended together when the store closes. */
export class Holds {
  readonly #open = new Set<Hold>();
  readonly #limit: number;

  constructor(limit = 10_000) {
    this.#limit = limit;
  }

  get size(): number {
    return this.#open.size;
  }

  /** `seconds` null holds without limit. */
  open(seconds: number | null, signal: AbortSignal | undefined): Hold {
    if (this.#open.size >= this.#limit) {
      throw new AglError("store", `${this.#limit} requests are waiting already: try again later`);
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    let isOver = false;
    const release = () => {
      if (isOver) return;
      isOver = true;
      clearTimeout(timer);
      signal?.removeEventListener("abort", release);
      this.#open.delete(hold);
      resolve();
    };
    const hold: Hold = {
      ended: promise,
      get isOver() {
        return isOver;
      },
      release,
    };
    const timer =
      seconds === null ? undefined : setTimeout(release, Math.min(seconds * 1000, longestTimerMs));
    this.#open.add(hold);
    signal?.addEventListener("abort", release);
    if (signal?.aborted) release();
    return hold;
  }

  releaseAll(): void {
    for (const hold of this.#open) hold.release();
  }
}
