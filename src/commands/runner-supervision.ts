import { AglError } from "../errors.ts";
import type { RunnerProcess } from "./runner-process.ts";

export interface RunnerSupervisionOptions {
  start: () => RunnerProcess;
  /** Ends what a dead process was working on; returns how many attempts that were. */
  endAttempts: (reason: string) => Promise<number>;
  say: (line: string) => void;
  /** Before each new start; as many restarts as there are pauses. */
  pausesMs?: number[];
}

/** Runners that are started again when their process dies, a few times in a run. */
export class RunnerSupervision {
  /** Settles with the first start; one that fails is not repeated. */
  readonly ready: Promise<void>;
  /** Rejects when the runners cannot go on. */
  readonly failed: Promise<never>;
  readonly #options: RunnerSupervisionOptions;
  #current: RunnerProcess;
  #stopping = false;

  constructor(options: RunnerSupervisionOptions) {
    this.#options = options;
    this.#current = options.start();
    this.ready = this.#current.ready;
    this.ready.catch(() => {});
    this.failed = this.#supervise();
    this.failed.catch(() => {});
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    await this.#current.stop();
  }

  async #supervise(): Promise<never> {
    const { start, endAttempts, say, pausesMs = [1_000, 2_000, 4_000] } = this.#options;
    await this.ready;
    for (const [index, pauseMs] of pausesMs.entries()) {
      const { message } = await this.#current.died;
      const ended = await endAttempts(message);
      say(
        `${message}; ${ended} running attempts failed; starting again in ${pauseMs / 1000} s ` +
          `(${index + 1} of ${pausesMs.length})`,
      );
      await Bun.sleep(pauseMs);
      if (this.#stopping) return await new Promise<never>(() => {});
      this.#current = start();
      // A start that fails is a death like any other.
      this.#current.ready.catch(() => {});
    }
    const last = await this.#current.died;
    const remedy = last.remedy === undefined ? {} : { remedy: last.remedy };
    throw new AglError(
      "agent",
      `${last.message}; they were started again ${pausesMs.length} times before`,
      remedy,
    );
  }
}
