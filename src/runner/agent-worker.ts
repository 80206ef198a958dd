import type { ToolAnswer, ToolServerCommand } from "../agent/agent.ts";
import { within } from "../agent/within.ts";
import { AglError } from "../errors.ts";
import type { JsonObject } from "../protocol/types.ts";
import type { SpanCore } from "./attempt-spans.ts";
import {
  type ErrorReport,
  type HostMessage,
  reportError,
  type RunJob,
  type WorkerMessage,
} from "./worker-messages.ts";

const loadLimitMs = 60_000;
/** A thread inside a native call cannot be ended before the call returns. */
const terminateLimitMs = 2_000;

export type RunOutcome =
  | { kind: "returned"; reward: number | null }
  | { kind: "threw"; error: ErrorReport }
  /** The thread ended under the run. */
  | { kind: "worker-ended"; reason: string; cause: EndCause };

/** Whether the run itself ended its thread, another run did, or nobody can tell. */
export type EndCause = "own" | "neighbour" | "unknown";

export interface RunHandlers {
  callTool(name: string, args: JsonObject, limitMs: number | undefined): Promise<ToolAnswer>;
  /** Both resolve when what came has its place in the order. */
  takeReward(value: number, time: number): Promise<void>;
  takeModelCall(span: SpanCore): Promise<void>;
  takeLog(lines: string[]): void;
}

interface Run {
  handlers: RunHandlers;
  finished: PromiseWithResolvers<RunOutcome>;
}

export interface AgentWorkerOptions {
  createWorker: () => Worker;
  agentFile: string | null;
  settings: JsonObject;
  /** Lines that belong to no run. */
  onStrayLog?: (lines: string[]) => void;
}

export interface LoadedAgent {
  name: string;
  tools: Record<string, ToolServerCommand>;
}

/** One thread that runs agents, seen from the host. Whatever happens in it becomes the outcome of its runs. */
export class AgentWorker {
  /** Settled with the reason when the thread is gone. */
  readonly ended: Promise<string>;
  readonly #worker: Worker;
  readonly #options: AgentWorkerOptions;
  readonly #runs = new Map<number, Run>();
  readonly #loaded = Promise.withResolvers<LoadedAgent>();
  readonly #end = Promise.withResolvers<string>();
  readonly #closed = Promise.withResolvers<void>();
  #endReason: string | undefined;
  #nextKey = 1;

  constructor(options: AgentWorkerOptions) {
    this.#options = options;
    this.ended = this.#end.promise;
    this.#loaded.promise.catch(() => {});
    this.#worker = options.createWorker();
    this.#worker.onmessage = (event: MessageEvent<WorkerMessage>) => this.#take(event.data);
    this.#worker.onerror = (event) => {
      event.preventDefault();
      this.#finish(`the agent's thread failed: ${event.message}`, () => "unknown");
    };
    this.#worker.addEventListener("close", () => {
      this.#closed.resolve();
      this.#finish("the agent's thread ended", () => "unknown");
    });
  }

  async load(): Promise<LoadedAgent> {
    this.#post({ type: "load", agentFile: this.#options.agentFile, settings: this.#options.settings });
    const limit = setTimeout(
      () =>
        this.#loaded.reject(new AglError("agent", `the agent was not loaded within ${loadLimitMs / 1000} s`)),
      loadLimitMs,
    );
    try {
      return await this.#loaded.promise;
    } finally {
      clearTimeout(limit);
    }
  }

  /** Hands a task over; `abort` asks the agent to stop, which it may ignore. */
  run(
    job: Omit<RunJob, "key">,
    handlers: RunHandlers,
  ): { outcome: Promise<RunOutcome>; abort(reason: string): void } {
    const key = this.#nextKey++;
    const finished = Promise.withResolvers<RunOutcome>();
    if (this.#endReason !== undefined) {
      finished.resolve({ kind: "worker-ended", reason: this.#endReason, cause: "neighbour" });
    } else {
      this.#runs.set(key, { handlers, finished });
      this.#post({ type: "run", job: { ...job, key } });
    }
    return {
      outcome: finished.promise,
      abort: (reason) => this.#post({ type: "abort", key, reason }),
    };
  }

  /** Ends the thread and all its runs with the reason. False when it hangs in a native call and could not be ended yet. */
  async terminate(reason: string, cause: EndCause = "neighbour"): Promise<boolean> {
    this.#finish(reason, () => cause);
    this.#worker.terminate();
    const closed = this.#closed.promise.then(() => true);
    return (await within(terminateLimitMs, closed)) ?? false;
  }

  #post(message: HostMessage): void {
    if (this.#endReason === undefined) this.#worker.postMessage(message);
  }

  #take(message: WorkerMessage): void {
    switch (message.type) {
      case "loaded":
        return this.#loaded.resolve({ name: message.name, tools: message.tools });
      case "load-failed": {
        const { remedy, exitCode } = message;
        const options = { exitCode, ...(remedy === undefined ? {} : { remedy }) };
        return this.#loaded.reject(new AglError("agent", message.message, options));
      }
      case "tool-call":
        return void this.#callTool(message);
      case "reward":
        return void this.#place(message, (run) => run.takeReward(message.value, message.time));
      case "model-call":
        return void this.#place(message, (run) => run.takeModelCall(message.span));
      case "log":
        return this.#takeLog(message.key, message.lines);
      case "finished":
        return this.#settle(message.key, { kind: "returned", reward: message.reward });
      case "threw":
        return this.#settle(message.key, { kind: "threw", error: message.error });
      case "escaped":
        return this.#takeEscape(message.key, message.error);
      case "exiting":
        return this.#finish(`the agent called process.exit(${message.code})`, (key) =>
          message.key === undefined ? "unknown" : key === message.key ? "own" : "neighbour",
        );
    }
  }

  async #callTool(message: Extract<WorkerMessage, { type: "tool-call" }>): Promise<void> {
    const { call } = message;
    const run = this.#runs.get(message.key);
    try {
      if (run === undefined) throw new Error("the attempt has ended");
      const answer = await run.handlers.callTool(message.name, message.arguments, message.limitMs);
      this.#post({ type: "tool-answer", call, answer });
    } catch (error) {
      this.#post({ type: "tool-failed", call, error: reportError(error) });
    }
  }

  async #place(
    { key, call }: { key: number; call: number },
    take: (handlers: RunHandlers) => Promise<void>,
  ): Promise<void> {
    const run = this.#runs.get(key);
    if (run !== undefined) await take(run.handlers);
    this.#post({ type: "placed", call });
  }

  #takeLog(key: number | undefined, lines: string[]): void {
    const run = key === undefined ? undefined : this.#runs.get(key);
    if (run === undefined) this.#options.onStrayLog?.(lines);
    else run.handlers.takeLog(lines);
  }

  /** An error that can be laid to one run fails that run; another may have broken any, so the thread is given up. */
  #takeEscape(key: number | undefined, error: ErrorReport): void {
    const owner = key ?? (this.#runs.size === 1 ? this.#runs.keys().next().value : undefined);
    if (owner !== undefined && this.#runs.has(owner)) {
      this.#settle(owner, { kind: "threw", error });
      this.#post({ type: "abort", key: owner, reason: error.message });
    } else if (owner !== undefined || this.#runs.size === 0) {
      this.#options.onStrayLog?.([`an error after its attempt: ${error.type}: ${error.message}`]);
    } else {
      void this.terminate(`an error that no agent awaited: ${error.type}: ${error.message}`, "unknown");
    }
  }

  #settle(key: number, outcome: RunOutcome): void {
    this.#runs.get(key)?.finished.resolve(outcome);
    this.#runs.delete(key);
  }

  #finish(reason: string, causeFor: (key: number) => EndCause): void {
    if (this.#endReason !== undefined) return;
    this.#endReason = reason;
    for (const key of this.#runs.keys()) {
      this.#settle(key, { kind: "worker-ended", reason, cause: causeFor(key) });
    }
    this.#loaded.reject(new AglError("agent", reason));
    this.#end.resolve(reason);
  }
}
