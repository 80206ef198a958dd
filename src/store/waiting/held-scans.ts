/** Scans while answers are held: each takes the place of a poller, so that the store scans as often as for one. */
export class HeldScans {
  readonly #milliseconds: number;
  readonly #scan: () => void;
  #timer: NodeJS.Timeout | undefined;
  #held = 0;

  constructor(debounceSeconds: number, scan: () => void) {
    this.#milliseconds = Math.max(1, debounceSeconds) * 1000;
    this.#scan = scan;
  }

  async during<Value>(wait: () => Promise<Value>): Promise<Value> {
    this.#held += 1;
    this.#timer ??= setInterval(this.#scan, this.#milliseconds);
    try {
      return await wait();
    } finally {
      this.#held -= 1;
      if (this.#held === 0) this.stop();
    }
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
