/** Then the calls that were answered meanwhile are written down together: one write to the store instead of one each. */
const delayMs = 5;
/** Making the spans of a long conversation takes a while, and streams go on meanwhile. */
const maxAtOnce = 16;

/** Calls that are over and not yet written down as spans. Doing that at once would delay the next answer. */
export class FinishedCalls {
  #waiting: (() => void)[] = [];
  #isPlanned = false;

  /** `writeDown` runs soon, and never throws. */
  add(writeDown: () => void): void {
    this.#waiting.push(writeDown);
    if (this.#isPlanned) return;
    this.#isPlanned = true;
    setTimeout(() => this.#take(), delayMs);
  }

  #take(): void {
    for (const writeDown of this.#waiting.splice(0, maxAtOnce)) writeDown();
    if (this.#waiting.length > 0) setImmediate(() => this.#take());
    else this.#isPlanned = false;
  }
}
