import type { AgentRequest } from "./upstream-call.ts";

export interface HeldCallsOptions {
  /** How long one call may wait; 0 holds none. */
  holdMs: number;
  maxCalls: number;
  /** Of their requests, which stay in memory. */
  maxBytes: number;
}

/** `changed`: look again. `over`: its time is up. `full`: too many wait. `left`: the agent has gone. */
export type HoldEnd = "changed" | "over" | "full" | "left" | "stopping";

export interface HeldStatistics {
  /** Waiting now. */
  held: number;
  /** Calls that had to wait. */
  heldCalls: number;
  /** Those of them that waited in vain, by the reason. */
  heldInVain: { [end in Exclude<HoldEnd, "changed">]: number };
}

/** Calls that wait for a model server. The first that came is the first to go on. */
export class HeldCalls {
  readonly #options: HeldCallsOptions;
  readonly #waiting = new Set<(end: HoldEnd) => void>();
  readonly #inVain: HeldStatistics["heldInVain"] = { over: 0, full: 0, left: 0, stopping: 0 };
  #calls = 0;
  #changes = 0;
  #bytes = 0;

  constructor(options: HeldCallsOptions) {
    this.#options = options;
  }

  get holds(): boolean {
    return this.#options.holdMs > 0;
  }

  /** The patience of one call, which may have to wait more than once. */
  patience(agent: Pick<AgentRequest, "signal">): Patience {
    let waited = false;
    return new Patience(this.#options.holdMs, async (leftMs, bytes, seenChanges) => {
      if (seenChanges !== this.#changes) return "changed";
      if (!waited) this.#calls += 1;
      waited = true;
      const end = await this.#wait(agent.signal, leftMs, bytes);
      if (end !== "changed") this.#inVain[end] += 1;
      return end;
    });
  }

  /** How often something has changed that a call may wait for. */
  get changes(): number {
    return this.#changes;
  }

  /** Everybody looks again. */
  wake(): void {
    this.#changes += 1;
    for (const end of this.#waiting) end("changed");
  }

  /** Those that wait now are sent away. */
  stop(): void {
    for (const end of this.#waiting) end("stopping");
  }

  statistics(): HeldStatistics {
    return { held: this.#waiting.size, heldCalls: this.#calls, heldInVain: { ...this.#inVain } };
  }

  #wait(client: AbortSignal, leftMs: number, bytes: number): Promise<HoldEnd> {
    const { maxCalls, maxBytes } = this.#options;
    if (client.aborted) return Promise.resolve("left");
    if (this.#waiting.size >= maxCalls || this.#bytes + bytes > maxBytes) return Promise.resolve("full");
    this.#bytes += bytes;
    return new Promise((resolve) => {
      const end = (reason: HoldEnd) => {
        clearTimeout(timer);
        client.removeEventListener("abort", leave);
        this.#waiting.delete(end);
        this.#bytes -= bytes;
        resolve(reason);
      };
      const leave = () => end("left");
      const timer = setTimeout(() => end("over"), leftMs);
      client.addEventListener("abort", leave);
      this.#waiting.add(end);
    });
  }
}

type Wait = (leftMs: number, bytes: number, seenChanges: number) => Promise<HoldEnd>;

export class Patience {
  readonly #until: number;
  readonly #wait: Wait;
  #isOver: boolean;

  constructor(holdMs: number, wait: Wait) {
    this.#until = performance.now() + holdMs;
    this.#isOver = holdMs === 0;
    this.#wait = wait;
  }

  /** The call may not wait any longer. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** `seenChanges`: of before the look that led to waiting. */
  async wait(bytes: number, seenChanges: number): Promise<HoldEnd> {
    const end = await this.#wait(Math.max(0, this.#until - performance.now()), bytes, seenChanges);
    if (end !== "changed" || performance.now() >= this.#until) this.#isOver = true;
    return end;
  }
}
