import { DownloadGate } from "../agent/tool-command.ts";
import { ToolServers, type ToolServersOptions } from "../agent/tool-servers.ts";
import { ToolServerError } from "../agent/tool-server-error.ts";
import { AglError, messageOf } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { StoreApi } from "../protocol/store-api.ts";
import type { AttemptedRollout, JsonObject } from "../protocol/types.ts";
import { AgentWorker, type AgentWorkerOptions, type LoadedAgent } from "./agent-worker.ts";
import { runAttempt } from "./attempt.ts";
import type { DeathCount } from "./death-count.ts";
import type { AttemptEnded, RunnerEvent } from "./events.ts";
import type { RunnersSettings } from "./options.ts";
import { pause } from "./pause.ts";

const firstRetryMs = 500;
const maxRetryMs = 5_000;
/** An empty answer that came back sooner than this was not held. */
const heldAtLeastMs = 100;

export interface SlotOptions {
  label: string;
  settings: RunnersSettings;
  store: StoreApi;
  /** Whether the store holds a dequeue until a rollout comes. */
  storeHolds: boolean;
  agent: Omit<AgentWorkerOptions, "onStrayLog">;
  tools: Omit<ToolServersOptions, "servers" | "onReplaced">;
  deaths: DeathCount;
  stats: () => JsonObject;
  stop: AbortSignal;
  log: Logger;
  emit: (event: RunnerEvent) => void;
  onAttemptEnded: (ended: AttemptEnded) => void;
}

/** One worker of the store: a thread for agents, its warm tool servers, and the loop that gives it work. */
export class RunnerSlot {
  readonly #options: SlotOptions;
  #tools: ToolServers = new ToolServers({ servers: {}, environment: {}, gate: new DownloadGate() });
  #worker: Promise<AgentWorker> | undefined;
  readonly #running = new Set<Promise<void>>();
  /** Told with every heartbeat, so that a run can see who can do its work. */
  #agentName: { agent?: string } = {};
  /** Rejected when no thread can be started any more. */
  readonly #givenUp = Promise.withResolvers<never>();

  constructor(options: SlotOptions) {
    this.#options = options;
    this.#givenUp.promise.catch(() => {});
  }

  /** Loads the agent and starts its tool servers. */
  async prepare(): Promise<{ agent: LoadedAgent; tools: string[] }> {
    const { worker, agent } = await this.#startWorker();
    this.#worker = Promise.resolve(worker);
    this.#agentName = { agent: agent.name };
    this.#tools = new ToolServers({
      ...this.#options.tools,
      servers: agent.tools,
      onReplaced: (server, reason) => {
        this.#options.log.warning("a tool server is replaced", { server, reason });
        this.#options.emit({ event: "tool-server-replaced", worker: this.#options.label, server, reason });
      },
    });
    await this.#startTools();
    return { agent, tools: this.#tools.definitions.map((tool) => tool.function.name) };
  }

  async #startTools(): Promise<void> {
    try {
      await this.#tools.start();
    } catch (error) {
      if (!(error instanceof ToolServerError)) throw error;
      for (const line of error.stderr) this.#options.log.error(line, { worker: this.#options.label });
      throw new AglError("tool", error.message, {
        remedy:
          "check the command under `tools` in the agent; `uvx` needs the network for a tool it has not fetched yet",
        cause: error,
      });
    }
  }

  /** Takes rollouts while there is room, until the stop. Throws when threads keep dying. */
  async work(): Promise<void> {
    const { stop, settings } = this.#options;
    const beating = setInterval(() => void this.#beat(), settings.heartbeatSeconds * 1000);
    void this.#beat();
    const loop = async () => {
      while (!stop.aborted) await this.#step();
    };
    try {
      await Promise.race([loop(), this.#givenUp.promise]);
    } finally {
      clearInterval(beating);
    }
  }

  /** Waits until the attempts it holds are in the store. */
  async settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  async end(): Promise<void> {
    const worker = await this.#worker?.catch(() => undefined);
    await Promise.all([worker?.terminate("the run was stopped"), this.#tools.stop()]);
  }

  async #step(): Promise<void> {
    const { stop, settings } = this.#options;
    if (this.#running.size >= settings.concurrency) {
      await Promise.race(this.#running);
      return;
    }
    if (this.#worker === undefined) throw new Error("a slot was put to work before it was prepared");
    const worker = await this.#worker;
    if (stop.aborted) return;
    for (const rollout of await this.#dequeue()) {
      // The thread may have been replaced meanwhile; without a new one the attempt fails with the old one's end.
      this.#start(rollout, (await this.#worker.catch(() => worker)) ?? worker);
    }
  }

  async #dequeue(): Promise<AttemptedRollout[]> {
    const { store, storeHolds, label, settings, stop } = this.#options;
    const holding = storeHolds ? { wait_seconds: settings.waitSeconds } : {};
    const started = performance.now();
    for (let retryMs = firstRetryMs; ; retryMs = Math.min(maxRetryMs, retryMs * 2)) {
      try {
        const request = { limit: 1, worker_id: label, ...holding };
        const rollouts = await store.dequeueRollouts(request, { signal: stop });
        if (rollouts.length === 0 && performance.now() - started < heldAtLeastMs) {
          await pause(settings.pollSeconds * 1000, stop);
        }
        return rollouts;
      } catch (error) {
        if (stop.aborted) return [];
        this.#options.log.warning("the store gave no work", { worker: label, error: messageOf(error) });
        this.#options.emit({ event: "store-trouble", worker: label, message: messageOf(error) });
        await pause(retryMs, stop);
        if (stop.aborted) return [];
      }
    }
  }

  #start(rollout: AttemptedRollout, worker: AgentWorker): void {
    const { store, label, settings, stop, log } = this.#options;
    const { heartbeatSeconds, attemptTimeoutSeconds, graceSeconds, tracer } = settings;
    const running = runAttempt(rollout, {
      store,
      worker,
      workerLabel: label,
      tools: this.#tools,
      stop,
      log,
      heartbeatSeconds,
      attemptTimeoutSeconds,
      graceSeconds,
      tracer,
    }).then((ended) => {
      this.#running.delete(running);
      this.#options.onAttemptEnded(ended);
    });
    this.#running.add(running);
  }

  async #startWorker(): Promise<{ worker: AgentWorker; agent: LoadedAgent }> {
    const { agent: options, label, log } = this.#options;
    const worker = new AgentWorker({
      ...options,
      onStrayLog: (lines) => {
        for (const line of lines) log.info(line, { worker: label });
      },
    });
    try {
      const agent = await worker.load();
      void worker.ended.then((reason) => this.#replace(worker, reason));
      return { worker, agent };
    } catch (error) {
      await worker.terminate(messageOf(error));
      throw error;
    }
  }

  #replace(dead: AgentWorker, reason: string): void {
    if (this.#options.stop.aborted) return;
    void dead.terminate(reason).then((ended) => {
      if (!ended) {
        this.#options.log.warning("a thread in a native call goes on until that returns", {
          worker: this.#options.label,
        });
      }
    });
    this.#worker = this.#startAgain(reason);
    this.#worker.catch((error: unknown) => this.#givenUp.reject(error));
  }

  async #startAgain(reason: string): Promise<AgentWorker> {
    const { deaths, label, log, emit, stop } = this.#options;
    for (let why = reason; ;) {
      deaths.add();
      log.warning("a worker is replaced", { worker: label, reason: why });
      emit({ event: "worker-replaced", worker: label, reason: why, deaths: deaths.inARow });
      if (deaths.isTooMany)
        throw new AglError("agent", `${deaths.inARow} workers died in a row; the last: ${why}`);
      await pause(deaths.pauseMs, stop);
      try {
        return (await this.#startWorker()).worker;
      } catch (error) {
        if (stop.aborted) throw error;
        why = messageOf(error);
      }
    }
  }

  async #beat(): Promise<void> {
    const { store, label, stats, log } = this.#options;
    try {
      await store.updateWorker(label, { ...stats(), ...this.#agentName });
    } catch (error) {
      log.warning("a worker's heartbeat was not taken", { worker: label, error: messageOf(error) });
    }
  }
}
