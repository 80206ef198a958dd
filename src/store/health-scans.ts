import { messageOf } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { ScanOutcome } from "./observer.ts";
import { ScanDebounce } from "./rules/health.ts";
import { HeldScans } from "./waiting/held-scans.ts";

export interface HealthScansOptions {
  /** H-1: shortest time between two. */
  debounceSeconds: number;
  now: () => number;
  log: Logger;
  /** Ends the overdue attempts, and returns how many there were. */
  scan: () => Promise<number>;
  onScanned: (outcome: ScanOutcome) => void;
}

/** H-1: lazy and debounced. */
export class HealthScans {
  readonly #options: HealthScansOptions;
  readonly #debounce: ScanDebounce;
  readonly #held: HeldScans;

  constructor(options: HealthScansOptions) {
    this.#options = options;
    this.#debounce = new ScanDebounce(options.debounceSeconds);
    this.#held = new HeldScans(options.debounceSeconds, () => void this.scanIfDue());
  }

  /** Never fails. Reads wait for it; writes need not, they run after it. */
  async scanIfDue(): Promise<void> {
    const { now, log, scan, onScanned } = this.#options;
    if (!this.#debounce.isDue(now())) return;
    const started = performance.now();
    const seconds = () => (performance.now() - started) / 1000;
    try {
      const overdue = await scan();
      onScanned({ seconds: seconds() });
      if (overdue > 0) log.info("overdue attempts were ended", { attempts: overdue });
    } catch (error) {
      onScanned({ error, seconds: seconds() });
      log.error("the health scan failed", { error: messageOf(error) });
    }
  }

  /** Scans go on while an answer is held, which takes the place of a poller. */
  during<Value>(wait: () => Promise<Value>): Promise<Value> {
    return this.#held.during(wait);
  }

  stop(): void {
    this.#held.stop();
  }
}
