import type { Mode, RolloutStatus } from "../protocol/enums.ts";

export interface EndedRollout {
  status: RolloutStatus;
  mode: Mode | null;
  /** From the rollout's start to its end. */
  seconds: number;
}

export interface ScanOutcome {
  seconds: number;
  /** Undefined when it went well. */
  error?: unknown;
}

/** Told what happens inside the store that no caller asked for. */
export interface StoreObserver {
  /** A commit that ended them is on disk. */
  rolloutEnded(rollout: EndedRollout): void;
  scanned(outcome: ScanOutcome): void;
}
