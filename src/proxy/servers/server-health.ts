import type { CallFailure } from "../../chat/call-failure.ts";
import type { DirectFetch } from "../../client/loopback-fetch.ts";
import type { Logger } from "../../log.ts";
import type { Upstream } from "./upstreams.ts";

export interface HealthSurroundings {
  fetch: DirectFetch;
  log: Logger;
  /** A server has become available. */
  onAvailable: () => void;
  /** Calls are held while no server of their model can be reached. */
  holds: boolean;
  /** Before a server that left is tried again; doubled each time. */
  firstPauseMs: number;
}

/** Failures in a row after which a server that does answer, or not in time, is left out. */
const maxFailures = 5;
/** A server that is not there is asked often: it costs nothing, and calls may be waiting for it. */
const maxUnreachablePauseMs = 5_000;
const maxFailurePauseMs = 60_000;
/** A trial that has said nothing for so long does not keep others from trying. */
const trialMs = 60_000;
const checkTimeoutMs = 5_000;

export type HealthState = "in" | "out" | "trial";

/**
 * What the calls to one server of one model say about it. It leaves at the first call that could not reach it, until it
 * can be reached; and after several failures in a row, until one call that is let through as a trial gets an answer.
 */
export class ServerHealth {
  /** Another server of the same model takes the calls meanwhile. */
  hasStandIn = false;
  failures = 0;
  timesOut = 0;
  readonly #upstream: Upstream;
  readonly #surroundings: HealthSurroundings;
  readonly #closed = new AbortController();
  #state: HealthState = "in";
  #unreachable = false;
  #failuresInRow = 0;
  /** How often it left without a whole answer in between. */
  #outages = 0;
  #trialSince: number | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(upstream: Upstream, surroundings: HealthSurroundings) {
    this.#upstream = upstream;
    this.#surroundings = surroundings;
  }

  get state(): HealthState {
    return this.#state;
  }

  /** Left out, and at the last look there was nobody at its address. */
  get isUnreachable(): boolean {
    return this.#state === "out" && this.#unreachable;
  }

  get isAvailable(): boolean {
    if (this.#state !== "trial") return this.#state === "in";
    return this.#trialSince === undefined || performance.now() - this.#trialSince > trialMs;
  }

  /** Its next call goes out now. */
  chosen(): void {
    if (this.#state === "trial") this.#trialSince = performance.now();
  }

  /** It has begun an answer that is no failure of its own. */
  responded(): void {
    if (this.#state === "trial") this.#return();
  }

  /** A call that reached it is over. */
  ended(failure: CallFailure | null, aborted: boolean): void {
    if (!aborted && failure !== null && isServersFault(failure)) this.#failed(failure.type);
    else if (aborted || failure?.status === null) this.#undecided();
    else {
      this.#failuresInRow = 0;
      if (this.#state === "in") this.#outages = 0;
    }
  }

  /** A call did not get as far as the server. */
  notReached(reason: string): void {
    this.failures += 1;
    if (this.#state === "out" && !this.#unreachable) {
      this.#unreachable = true;
      clearTimeout(this.#timer);
      this.#pause();
    } else if (this.hasStandIn || this.#surroundings.holds) this.#leave(reason, true);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#closed.abort();
  }

  #failed(reason: string): void {
    this.failures += 1;
    this.#failuresInRow += 1;
    if (this.#state === "trial" || (this.#failuresInRow >= maxFailures && this.hasStandIn)) {
      this.#leave(reason, false);
    }
  }

  #undecided(): void {
    if (this.#state !== "trial") return;
    this.#trialSince = undefined;
    this.#surroundings.onAvailable();
  }

  #leave(reason: string, unreachable: boolean): void {
    if (this.#state === "out" || this.#closed.signal.aborted) return;
    if (this.#state === "in") {
      this.timesOut += 1;
      const then = this.hasStandIn ? "its calls go to others" : "its calls wait";
      this.#surroundings.log.warning(`a model server is left out; ${then}`, { ...this.#names(), reason });
    }
    this.#state = "out";
    this.#unreachable = unreachable;
    this.#trialSince = undefined;
    this.#pause();
  }

  #pause(): void {
    const limit = this.#unreachable ? maxUnreachablePauseMs : maxFailurePauseMs;
    const pauseMs = Math.min(limit, this.#surroundings.firstPauseMs * 2 ** Math.min(this.#outages, 20));
    this.#outages += 1;
    this.#timer = setTimeout(() => void this.#tryAgain(), pauseMs);
    this.#timer.unref();
  }

  async #tryAgain(): Promise<void> {
    const isVllm = this.#upstream.provider === "hosted_vllm";
    const healthy = isVllm || this.#unreachable ? await this.#check() : true;
    if (this.#closed.signal.aborted) return;
    if (!healthy) return this.#pause();
    if (this.#unreachable) return this.#return();
    this.#state = "trial";
    this.#surroundings.onAvailable();
  }

  #return(): void {
    this.#state = "in";
    this.#failuresInRow = 0;
    this.#surroundings.log.warning("a model server is back", this.#names());
    this.#surroundings.onAvailable();
  }

  /** Spares an agent's call from being the one that finds out. */
  async #check(): Promise<boolean> {
    const { baseUrl, unixSocket, provider } = this.#upstream;
    try {
      const answer = await this.#surroundings.fetch(baseUrl.replace(/\/v1$/, "/health"), {
        redirect: "manual",
        signal: AbortSignal.any([this.#closed.signal, AbortSignal.timeout(checkTimeoutMs)]),
        ...(unixSocket === undefined ? {} : { unix: unixSocket }),
      });
      await answer.body?.cancel();
      // A server without that page is there all the same.
      return answer.status < 500 || provider !== "hosted_vllm";
    } catch {
      return false;
    }
  }

  #names(): { model: string; server: string } {
    return { model: this.#upstream.modelName, server: serverName(this.#upstream) };
  }
}

function isServersFault({ status, type }: CallFailure): boolean {
  return status === null ? type === "upstream_timeout" || type === "upstream_unreachable" : status >= 500;
}

/** Without what an address may hold beside the host. */
export function serverName({ baseUrl, unixSocket }: Upstream): string {
  return unixSocket ?? new URL(baseUrl).host;
}
