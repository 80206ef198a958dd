import type { AttemptStatus, RolloutStatus, WorkerStatus } from "../../src/protocol/enums.ts";
import type { RolloutConfig } from "../../src/protocol/types.ts";

/** Rollouts are named by number, from 1; one that does not exist is refused. */
export type RolloutNumber = number;
/** Attempts are named by their number within the rollout, or as the latest. */
export type AttemptNumber = number | "latest";

export interface ModelAttempt {
  number: number;
  status: AttemptStatus;
  start: number;
  end: number | null;
  beat: number | null;
  worker: string | null;
}

export interface ModelRollout {
  status: RolloutStatus;
  start: number;
  end: number | null;
  attempts: ModelAttempt[];
}

export interface ModelWorker {
  status: WorkerStatus;
  stats: number | null;
  beat: number | null;
  dequeued: number | null;
  busy: number | null;
  idle: number | null;
  /** Numbers of the rollout and attempt that it works on. */
  current: [number, number] | null;
}

export interface AttemptChange {
  status?: AttemptStatus;
  worker?: string;
  beat?: number;
}

export interface SpanArrival {
  rollout: RolloutNumber;
  attempt: number;
  span: number;
  sequence: number;
}

export class Refusal extends Error {}

const finished: readonly RolloutStatus[] = ["succeeded", "failed", "cancelled"];
const active: readonly RolloutStatus[] = ["preparing", "running"];
const queuing: readonly RolloutStatus[] = ["queuing", "requeuing"];

/**
 * Section 5 of test/spec/store-api.md with the decisions of its section 11, told once more: no database, no
 * ids, time in whole seconds that stands still unless it is moved.
 */
export class LifecycleModel {
  readonly rollouts: ModelRollout[] = [];
  readonly workers: { [id: string]: ModelWorker } = {};
  time: number;
  readonly #debounce: number;
  #lastScan = Number.NEGATIVE_INFINITY;
  /** S-4: first in, first out; an entry stays when its rollout leaves the queuing group. */
  readonly #queue: RolloutNumber[] = [];
  readonly #configs: RolloutConfig[] = [];
  readonly #counters: { [rollout: string]: number } = {};
  readonly #spans = new Set<string>();

  constructor(options: { time: number; debounce: number }) {
    this.time = options.time;
    this.#debounce = options.debounce;
  }

  // ——— 5.2 Creating and queueing ———

  /** S-1. */
  enqueue(config: RolloutConfig): RolloutNumber {
    this.scanIfDue();
    return this.#create(config, "queuing");
  }

  /** S-2. */
  start(config: RolloutConfig, worker: string | null): RolloutNumber {
    this.scanIfDue();
    const number = this.#create(config, "preparing");
    this.#newAttempt(number, worker);
    return number;
  }

  /** S-3, S-5, K-3 to K-5. */
  dequeue(limit: number, worker: string | null): RolloutNumber[] {
    if (limit <= 0) return [];
    this.scanIfDue();
    const claimed: RolloutNumber[] = [];
    while (claimed.length < limit && this.#queue.length > 0) {
      const number = this.#queue.shift()!;
      if (!queuing.includes(this.#rollout(number).status)) continue;
      this.#newAttempt(number, worker);
      claimed.push(number);
    }
    if (!worker) return claimed;
    const state = this.#worker(worker);
    state.dequeued = this.time;
    if (claimed.length === 0 && state.status !== "idle") this.#release(state, "idle");
    return claimed;
  }

  /** S-6. */
  startAttempt(number: RolloutNumber, worker: string | null): void {
    this.scanIfDue();
    this.#rollout(number);
    this.#newAttempt(number, worker);
  }

  /** 5.1: any status may be set from any other. S-20: cancelling is no more than that. */
  updateRollout(number: RolloutNumber, change: { status?: RolloutStatus; config?: RolloutConfig }): void {
    this.scanIfDue();
    this.#rollout(number);
    if (change.config !== undefined) this.#configs[number] = change.config;
    if (change.status !== undefined) this.#setStatus(number, change.status);
  }

  // ——— 5.3, 5.4 What an attempt makes of its rollout ———

  /** S-12 to S-15, K-3. */
  updateAttempt(number: RolloutNumber, which: AttemptNumber, change: AttemptChange): void {
    this.scanIfDue();
    const { attempts } = this.#rollout(number);
    if (attempts.length === 0) throw new Refusal("no attempts");
    const attempt = which === "latest" ? attempts.at(-1) : attempts[which - 1];
    if (attempt === undefined) throw new Refusal("unknown attempt");
    this.#change(number, attempt, change);
  }

  // ——— 5.6 Health scan ———

  /** H-1: at most once per debounce. */
  scanIfDue(): void {
    if (this.time - this.#lastScan < this.#debounce) return;
    this.#lastScan = this.time;
    this.rollouts.forEach((rollout, index) => {
      const latest = rollout.attempts.at(-1);
      if (latest === undefined || !active.includes(rollout.status)) return;
      const status = this.#overdue(latest, this.#configs[index + 1]!);
      if (status !== null) this.#change(index + 1, latest, { status });
    });
  }

  // ——— 5.7 Workers ———

  /** K-8. */
  heartbeat(worker: string, stats: number | null): void {
    const state = this.#worker(worker);
    state.beat = this.time;
    if (stats !== null) state.stats = stats;
  }

  // ——— 5.8 Sequence numbers ———

  /** N-1. */
  nextSequence(number: RolloutNumber): number {
    const name = this.#name(number);
    return (this.#counters[name] = (this.#counters[name] ?? 0) + 1);
  }

  // ——— 5.9 Spans ———

  /** P-1 to P-5: what became of each; the effects of a batch come once per attempt, after all its spans. */
  addSpans(arrivals: readonly SpanArrival[]): string[] {
    const touched = new Set<ModelAttempt>();
    const outcomes = arrivals.map(({ rollout, attempt, span, sequence }) => {
      // N-2, N-3
      const name = this.#name(rollout);
      this.#counters[name] = Math.max(this.#counters[name] ?? 0, sequence);
      const known = this.rollouts[rollout - 1];
      if (known === undefined) return "unknown rollout";
      const found = known.attempts[attempt - 1];
      if (found === undefined) return "unknown attempt";
      const key = `${rollout}/${attempt}/${span}`;
      if (this.#spans.has(key)) return "duplicate";
      this.#spans.add(key);
      touched.add(found);
      return "stored";
    });
    for (const rollout of this.rollouts) {
      for (const attempt of rollout.attempts) if (touched.has(attempt)) this.#spanEffects(rollout, attempt);
    }
    return outcomes;
  }

  // ——— 5.10 Waiting ———

  /** E-17: which of these are finished by now. */
  finished(numbers: readonly RolloutNumber[]): RolloutNumber[] {
    this.scanIfDue();
    return numbers.filter((number) => finished.includes(this.rollouts[number - 1]?.status ?? "queuing"));
  }

  #create(config: RolloutConfig, status: "queuing" | "preparing"): RolloutNumber {
    const number = this.rollouts.push({ status, start: this.time, end: null, attempts: [] });
    this.#configs[number] = config;
    if (status === "queuing") this.#queue.push(number);
    return number;
  }

  #newAttempt(number: RolloutNumber, worker: string | null): void {
    const rollout = this.#rollout(number);
    const attempt: ModelAttempt = {
      number: rollout.attempts.length + 1,
      status: "preparing",
      start: this.time,
      end: null,
      beat: null,
      worker,
    };
    rollout.attempts.push(attempt);
    rollout.status = "preparing";
    this.#follow(number, attempt);
  }

  /** S-4.1, S-9. */
  #setStatus(number: RolloutNumber, status: RolloutStatus): void {
    const rollout = this.#rollout(number);
    rollout.status = status;
    if (finished.includes(status)) rollout.end = this.time;
    if (queuing.includes(status) && !this.#queue.includes(number)) this.#queue.push(number);
  }

  #change(number: RolloutNumber, attempt: ModelAttempt, { status, worker, beat }: AttemptChange): void {
    if (worker !== undefined) attempt.worker = worker;
    if (beat !== undefined) attempt.beat = beat;
    if (status !== undefined) attempt.status = status;
    // S-13
    if (status === "failed" || status === "succeeded") attempt.end = this.time;
    this.#propagate(number, attempt, status !== undefined);
    if (worker || status !== undefined) this.#follow(number, attempt);
  }

  /** S-8, S-10, S-11, S-20. */
  #propagate(number: RolloutNumber, attempt: ModelAttempt, statusGiven: boolean): void {
    const rollout = this.#rollout(number);
    if (attempt !== rollout.attempts.at(-1)) return;
    if (rollout.status === "cancelled" || (finished.includes(rollout.status) && !statusGiven)) return;
    const derived = this.#derived(attempt, this.#configs[number]!);
    if (derived !== rollout.status) this.#setStatus(number, derived);
  }

  /** S-8, S-16. */
  #derived({ status, number }: ModelAttempt, config: RolloutConfig): RolloutStatus {
    if (status === "preparing" || status === "running" || status === "succeeded") return status;
    return config.retry_condition.includes(status) && number < config.max_attempts ? "requeuing" : "failed";
  }

  /** H-4. */
  #overdue({ start, beat }: ModelAttempt, config: RolloutConfig): "timeout" | "unresponsive" | null {
    const { timeout_seconds: limit, unresponsive_seconds: silence } = config;
    if (limit !== null && this.time - start > limit) return "timeout";
    if (silence !== null && this.time - (beat ?? start) > silence) return "unresponsive";
    return null;
  }

  /** P-4, P-5. */
  #spanEffects(rollout: ModelRollout, attempt: ModelAttempt): void {
    attempt.beat = this.time;
    if (attempt.status === "preparing" || attempt.status === "unresponsive") attempt.status = "running";
    if (attempt !== rollout.attempts.at(-1)) return;
    if (rollout.status === "preparing") rollout.status = "running";
    if (rollout.status === "requeuing" && attempt.status === "running") rollout.status = "running";
  }

  /** K-2. */
  #follow(number: RolloutNumber, attempt: ModelAttempt): void {
    if (!attempt.worker) return;
    const worker = this.#worker(attempt.worker);
    if (attempt.status === "preparing" || attempt.status === "running") {
      worker.status = "busy";
      worker.busy = this.time;
      worker.current = [number, attempt.number];
    } else {
      const ended = attempt.status === "succeeded" || attempt.status === "failed";
      this.#release(worker, ended ? "idle" : "unknown");
    }
  }

  #release(worker: ModelWorker, status: "idle" | "unknown"): void {
    worker.status = status;
    worker.idle = this.time;
    worker.current = null;
  }

  /** K-1. */
  #worker(id: string): ModelWorker {
    return (this.workers[id] ??= {
      status: "unknown",
      stats: null,
      beat: null,
      dequeued: null,
      busy: null,
      idle: null,
      current: null,
    });
  }

  /** N-1: ids without a rollout are counted for, too; none of them is a later rollout's id. */
  #name(number: RolloutNumber): string {
    return this.rollouts[number - 1] === undefined ? `unknown ${number}` : `${number}`;
  }

  #rollout(number: RolloutNumber): ModelRollout {
    const rollout = this.rollouts[number - 1];
    if (rollout === undefined) throw new Refusal("unknown rollout");
    return rollout;
  }
}
