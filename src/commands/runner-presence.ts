import { AglError } from "../errors.ts";
import type { StoreApi } from "../protocol/store-api.ts";
import type { Worker } from "../protocol/types.ts";

export interface RunnerPresenceOptions {
  store: Pick<StoreApi, "queryWorkers">;
  /** The agent that the run wants; any when undefined. */
  agent: string | undefined;
  /** How long to go on without a runner. */
  limitSeconds: number;
  say: (line: string) => void;
  signal: AbortSignal;
  pollMs?: number;
  now?: () => number;
}

/** A worker that has not been heard of for so long is not counted on. */
const silentSeconds = 35;

/** Looks in the store whether runners are there that can do the run's work, and says what is missing. */
export class RunnerPresence {
  readonly #options: RunnerPresenceOptions;
  #said: string | undefined;

  constructor(options: RunnerPresenceOptions) {
    this.#options = options;
  }

  /** Returns when a runner with the right agent is connected. */
  async untilPresent(): Promise<void> {
    await this.#watch((missing) => missing === undefined);
  }

  /** Rejects when none was there for the whole limit; a break is said once. */
  async untilGone(): Promise<never> {
    await this.#watch(() => false);
    return await new Promise<never>(() => {});
  }

  async #watch(enough: (missing: string | undefined) => boolean): Promise<void> {
    const { limitSeconds, say, signal, pollMs = 1_000, now = Date.now } = this.#options;
    let lastPresent = now();
    while (!signal.aborted) {
      const missing = this.#missing(await this.#workers());
      if (missing === undefined) lastPresent = now();
      if (enough(missing)) return;
      if (missing !== undefined && now() - lastPresent > limitSeconds * 1_000) {
        throw new AglError("agent", `${missing}, for ${limitSeconds} s`, {
          remedy: "start `agl runners` for this store, or raise runners.connect_seconds",
        });
      }
      if (missing !== this.#said) say(missing === undefined ? "runners: connected" : `waiting: ${missing}`);
      this.#said = missing;
      await Bun.sleep(pollMs);
    }
    signal.throwIfAborted();
  }

  async #workers(): Promise<Worker[]> {
    const { items } = await this.#options.store.queryWorkers({ limit: -1 });
    const since = (this.#options.now ?? Date.now)() / 1_000 - silentSeconds;
    return items.filter((worker) => lastHeard(worker) >= since);
  }

  #missing(workers: Worker[]): string | undefined {
    if (workers.length === 0) return "no runner is connected";
    const { agent } = this.#options;
    const agents = new Set(workers.map(agentOf));
    // Runners that do not say which agent they run may well run the right one.
    if (agent === undefined || agents.has(agent) || agents.has(undefined)) return undefined;
    const names = [...agents].map((name) => JSON.stringify(name)).join(", ");
    return `no runner has agent "${agent}" (those that are connected have ${names})`;
  }
}

function lastHeard(worker: Worker): number {
  return Math.max(worker.last_heartbeat_time ?? 0, worker.last_dequeue_time ?? 0, worker.last_busy_time ?? 0);
}

function agentOf({ heartbeat_stats }: Worker): string | undefined {
  const agent = heartbeat_stats?.["agent"];
  return typeof agent === "string" ? agent : undefined;
}
