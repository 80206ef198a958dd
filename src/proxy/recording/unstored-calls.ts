/** How many calls of each attempt are on their way to the store, and who waits for them. */
export class UnstoredCalls {
  readonly #counts = new Map<string, number>();
  readonly #watchers = new Set<() => void>();
  readonly #onSettled: (attempt: string) => void;

  /** `onSettled` is told of each attempt whose calls are all stored. */
  constructor(onSettled: (attempt: string) => void) {
    this.#onSettled = onSettled;
  }

  add(attempt: string): void {
    this.#counts.set(attempt, (this.#counts.get(attempt) ?? 0) + 1);
  }

  settle(attempt: string): void {
    const left = (this.#counts.get(attempt) ?? 1) - 1;
    if (left > 0) this.#counts.set(attempt, left);
    else {
      this.#counts.delete(attempt);
      this.#onSettled(attempt);
    }
    this.changed();
  }

  /** None of the attempt, or none at all. */
  isSettled(attempt?: string): boolean {
    return attempt === undefined ? this.#counts.size === 0 : !this.#counts.has(attempt);
  }

  /** Those who wait look again. */
  changed(): void {
    for (const watcher of this.#watchers) watcher();
  }

  /** False when the time is up or the signal aborted. */
  until(isDone: () => boolean, limitMs: number, signal: AbortSignal): Promise<boolean> {
    if (isDone()) return Promise.resolve(true);
    if (signal.aborted) return Promise.resolve(false);
    return new Promise((resolve) => {
      const finish = (done: boolean) => {
        clearTimeout(timer);
        this.#watchers.delete(check);
        signal.removeEventListener("abort", check);
        resolve(done);
      };
      const check = () => {
        if (isDone()) finish(true);
        else if (signal.aborted) finish(false);
      };
      const timer = setTimeout(() => finish(false), limitMs);
      this.#watchers.add(check);
      signal.addEventListener("abort", check);
    });
  }
}
