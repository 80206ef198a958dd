const firstPauseMs = 250;
const maxPauseMs = 10_000;

/** Counts threads that died in a row over all slots; any attempt that comes to its own end starts it anew. */
export class DeathCount {
  readonly #limit: number;
  #inARow = 0;
  total = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get inARow(): number {
    return this.#inARow;
  }

  get isTooMany(): boolean {
    return this.#inARow > this.#limit;
  }

  add(): void {
    this.#inARow++;
    this.total++;
  }

  reset(): void {
    this.#inARow = 0;
  }

  /** Before the next thread is started; none after a single death. */
  get pauseMs(): number {
    if (this.#inARow <= 1) return 0;
    return Math.min(maxPauseMs, firstPauseMs * 2 ** (this.#inARow - 2));
  }
}
