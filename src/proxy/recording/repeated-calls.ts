import { attemptKey, type AttemptIds } from "./attempt-key.ts";

export interface Repetition {
  /** How many tries of the same call came before this one; 0 for a first one. */
  count: number;
  /** The call is over. */
  ended(outcome: { failed: boolean }): void;
}

const maxRemembered = 10_000;
const maxCount = 1_000;

/**
 * Recognises the tries of one call that a client library repeats by itself. OpenAI's and Anthropic's libraries number
 * them; else it is the same request of the same attempt after one that failed or that the client left.
 */
export class RepeatedCalls {
  /** Failed tries in a row, by attempt and request. */
  readonly #failures = new Map<string, number>();

  of(ids: AttemptIds, requestText: string, headers: Headers): Repetition {
    let known: string | undefined;
    // Only when there is something to compare: nearly all calls go well.
    const key = () => (known ??= `${attemptKey(ids)} ${Bun.hash(requestText).toString(16)}`);
    const failuresBefore = () => (this.#failures.size === 0 ? 0 : (this.#failures.get(key()) ?? 0));
    return {
      count: numbered(headers.get("x-stainless-retry-count")) ?? failuresBefore(),
      ended: ({ failed }) => {
        if (failed) this.#remember(key());
        else if (this.#failures.size > 0) this.#failures.delete(key());
      },
    };
  }

  #remember(key: string): void {
    const count = Math.min(maxCount, (this.#failures.get(key) ?? 0) + 1);
    this.#failures.delete(key);
    this.#failures.set(key, count);
    const oldest = this.#failures.keys().next().value;
    if (this.#failures.size > maxRemembered && oldest !== undefined) this.#failures.delete(oldest);
  }
}

function numbered(header: string | null): number | undefined {
  return header !== null && /^\d{1,3}$/.test(header) ? Number(header) : undefined;
}
