import type { ToolAnswer } from "../agent/agent.ts";
import type { ToolServers } from "../agent/tool-servers.ts";
import { within } from "../agent/within.ts";
import { messageOf } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { StoreApi } from "../protocol/store-api.ts";
import type { AttemptedRollout, JsonObject, LlmResource, NamedResources } from "../protocol/types.ts";
import { resolveEndpoint } from "../proxy/resource.ts";
import type { AgentWorker } from "./agent-worker.ts";
import { AttemptRecord } from "./attempt-record.ts";
import type { AttemptEnded } from "./events.ts";
import { keepAlive } from "./keep-alive.ts";
import type { TracerName } from "./tracer.ts";
import { untilAborted } from "./until-aborted.ts";
import { type Failure, failed, type Verdict, verdictOf } from "./verdict.ts";
import type { RunJob } from "./worker-messages.ts";

export interface AttemptOptions {
  store: StoreApi;
  worker: AgentWorker;
  workerLabel: string;
  tools: ToolServers;
  heartbeatSeconds: number;
  attemptTimeoutSeconds: number;
  graceSeconds: number;
  tracer: TracerName;
  /** Aborted when the runners stop. */
  stop: AbortSignal;
  log: Logger;
}

/** Works on one dequeued rollout until its outcome is in the store. Never throws. */
export function runAttempt(rollout: AttemptedRollout, options: AttemptOptions): Promise<AttemptEnded> {
  return new RunningAttempt(rollout, options).run();
}

class RunningAttempt {
  readonly #rollout: AttemptedRollout;
  readonly #options: AttemptOptions;
  readonly #record: AttemptRecord;
  readonly #startedMs = performance.now();
  /** Resolved when something from outside ends the attempt. */
  readonly #stopped = Promise.withResolvers<Failure>();
  /** Aborted at the end: tools that are still waited for are given up. */
  readonly #over = new AbortController();
  #llm: LlmResource | undefined;
  /** The agent's own end, when the verdict does not wait for it. */
  #unwinding: Promise<void> = Promise.resolve();

  constructor(rollout: AttemptedRollout, options: AttemptOptions) {
    this.#rollout = rollout;
    this.#options = options;
    this.#record = new AttemptRecord(rollout, options.store, options.workerLabel, options.log);
  }

  async run(): Promise<AttemptEnded> {
    const unwatch = this.#watch();
    const verdict = await this.#work().catch((error) => failed("store_error", messageOf(error)));
    unwatch();
    this.#over.abort(new Error("the attempt has ended"));
    const stored = await this.#record.close(verdict, this.#llm);
    await this.#unwinding;
    return this.#ended(stored);
  }

  async #work(): Promise<Verdict> {
    const stopped = this.#stopped.promise;
    const resources = await Promise.race([this.#resources(), stopped.then(() => undefined)]);
    if (resources === undefined) return stopped;
    if (resources === null) {
      const id = this.#rollout.resources_id;
      return failed(
        "resources_missing",
        id === null ? "the store holds no resources" : `resources ${id} do not exist`,
      );
    }
    this.#llm = Object.values(resources).find((resource) => resource.resource_type !== "prompt_template");
    if (this.#llm === undefined) {
      return failed("llm_missing", `no model among the resources (${Object.keys(resources).join(", ")})`);
    }
    return this.#runAgent(this.#job(this.#llm, resources));
  }

  async #runAgent(job: Omit<RunJob, "key">): Promise<Verdict> {
    const run = this.#options.worker.run(job, {
      callTool: (name, args, limitMs) => this.#callTool(name, args, limitMs),
      takeReward: async (value, time) => this.#unlessOver(() => this.#record.takeReward(value, time)),
      takeModelCall: async (span) => this.#unlessOver(() => this.#record.takeModelCall(span)),
      takeLog: (lines) => this.#unlessOver(() => this.#record.takeLog(lines)),
    });
    const ended = run.outcome.then(verdictOf);
    const stopped = this.#stopped.promise.then((failure) => {
      run.abort(failure.error.message);
      this.#unwinding = this.#endThreadUnlessSettled(ended);
      return failure;
    });
    return Promise.race([ended, stopped]);
  }

  /** An agent that does not heed its abort signal costs its thread. */
  async #endThreadUnlessSettled(ended: Promise<unknown>): Promise<void> {
    const { graceSeconds, stop, worker } = this.#options;
    if (stop.aborted) return;
    const settled = await within(
      graceSeconds * 1000,
      untilAborted(
        ended.then(() => true),
        stop,
      ),
    );
    if (settled || stop.aborted) return;
    const { rolloutId, attemptId } = this.#record.frame;
    await worker.terminate(
      `attempt ${attemptId} of rollout ${rolloutId} did not end within ${graceSeconds} s of its abort signal`,
    );
  }

  /** Everything that may end the attempt from outside. */
  #watch(): () => void {
    const { stop, attemptTimeoutSeconds, heartbeatSeconds, store } = this.#options;
    const { timeout_seconds: storeLimit, unresponsive_seconds: silenceLimit } = this.#rollout.config;
    const onStop = () => this.#stopped.resolve(failed("cancelled", "the run was stopped"));
    if (stop.aborted) onStop();
    stop.addEventListener("abort", onStop, { once: true });

    const limit = Math.min(attemptTimeoutSeconds, storeLimit ?? attemptTimeoutSeconds);
    // The rollout's own limit is the store's to name, so that its retry condition applies.
    const status = limit === storeLimit ? "timeout" : "failed";
    const timer = setTimeout(
      () => this.#stopped.resolve(failed("timeout", `the attempt did not end within ${limit} s`, status)),
      limit * 1000,
    );
    const stopKeeping = keepAlive(this.#rollout, {
      store,
      intervalSeconds: Math.min(heartbeatSeconds, (silenceLimit ?? Number.POSITIVE_INFINITY) / 3),
      onEndedElsewhere: (message) => this.#stopped.resolve(failed("ended_elsewhere", message, "none")),
      onTrouble: (message) => this.#options.log.warning("an attempt's heartbeat was not taken", { message }),
    });
    return () => {
      stop.removeEventListener("abort", onStop);
      clearTimeout(timer);
      stopKeeping();
    };
  }

  async #resources(): Promise<NamedResources | null> {
    const { store } = this.#options;
    const id = this.#rollout.resources_id;
    const bundle = id === null ? await store.getLatestResources() : await store.getResources(id);
    return bundle?.resources ?? null;
  }

  #job(llm: LlmResource, resources: NamedResources): Omit<RunJob, "key"> {
    const { rolloutId, attemptId } = this.#record.frame;
    return {
      task: this.#rollout.input,
      rolloutId,
      attemptId,
      mode: this.#rollout.mode,
      llm: {
        baseURL: resolveEndpoint(llm, rolloutId, attemptId),
        model: llm.model,
        // The client library refuses to be made without a key; servers that want none ignore it.
        apiKey: llm.api_key ?? "none",
        samplingParameters: llm.sampling_parameters,
      },
      resources,
      agentSettings: objectOr(this.#rollout.metadata?.["agent_settings"], {}),
      tools: this.#options.tools.definitions,
      tracer: this.#options.tracer,
    };
  }

  async #callTool(name: string, args: JsonObject, limitMs: number | undefined): Promise<ToolAnswer> {
    const signal = this.#over.signal;
    signal.throwIfAborted();
    const startTime = Date.now() / 1000;
    const take = (result: string, isError: boolean) =>
      this.#record.takeToolCall({
        name,
        arguments: args,
        result,
        isError,
        startTime,
        endTime: Date.now() / 1000,
      });
    try {
      const limit = limitMs === undefined ? {} : { limitMs };
      const answer = await this.#options.tools.call(name, args, { signal, ...limit });
      await take(answer.text, answer.isError);
      return answer;
    } catch (error) {
      if (!signal.aborted) await take(messageOf(error), true);
      throw error;
    }
  }

  #unlessOver<Result>(act: () => Result): Result | undefined {
    return this.#over.signal.aborted ? undefined : act();
  }

  #ended(verdict: Verdict): AttemptEnded {
    const { rolloutId, attemptId } = this.#record.frame;
    return {
      event: "attempt-ended",
      rolloutId,
      attemptId,
      worker: this.#options.workerLabel,
      status: verdict.status,
      ...(verdict.status === "succeeded"
        ? { reward: verdict.reward }
        : { reason: verdict.reason, error: verdict.error.message.slice(0, 500) }),
      toolCalls: this.#record.toolCalls,
      seconds: Math.round(performance.now() - this.#startedMs) / 1000,
    };
  }
}

function objectOr(value: unknown, fallback: JsonObject): JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : fallback;
}
