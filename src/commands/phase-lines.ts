import type { RolloutProgress } from "../algorithm/rollouts.ts";
import type { TrainProgress } from "../engine/trainer.ts";

const everyMs = 5_000;

/** A progress line at the start of a phase, every five seconds, and at its end. */
export class PhaseLines {
  readonly #say: (line: string) => void;
  #phase: string | undefined;
  #started = 0;
  #lastLine = 0;

  constructor(say: (line: string) => void) {
    this.#say = say;
  }

  show(phase: string, { done, failed, total }: RolloutProgress, now: number = Date.now()): void {
    if (phase !== this.#phase) {
      this.#phase = phase;
      this.#started = now;
      this.#lastLine = 0;
    }
    if (done < total && now - this.#lastLine < everyMs) return;
    this.#lastLine = now;
    const seconds = ((now - this.#started) / 1000).toFixed(0);
    this.#say(`${phase}: ${done}/${total} rollouts done, ${failed} failed, ${seconds} s`);
  }
}

/** A line every five seconds of a training: `training: step 20/46, loss 0.013`. */
export class TrainingLines {
  readonly #say: (line: string) => void;
  #lastLine = Number.NEGATIVE_INFINITY;

  constructor(say: (line: string) => void) {
    this.#say = say;
  }

  show({ step, steps, loss }: TrainProgress, now: number = Date.now()): void {
    if (step === undefined || steps === undefined) return;
    if (step < steps && now - this.#lastLine < everyMs) return;
    this.#lastLine = step < steps ? now : Number.NEGATIVE_INFINITY;
    this.#say(`training: step ${step}/${steps}${loss === undefined ? "" : `, loss ${loss.toPrecision(3)}`}`);
  }
}
