import OpenAI from "openai";
import type { Agent, AgentContext, ToolAnswer } from "../agent/agent.ts";
import { mergeSettings } from "../agent/settings.ts";
import { type DirectFetch, directFetch } from "../client/loopback-fetch.ts";
import type { JsonObject } from "../protocol/types.ts";
import { finiteReward, rewardOf } from "./reward.ts";
import { traceChatCalls } from "./traced-fetch.ts";
import {
  type ErrorReport,
  type HostMessage,
  reportError,
  type RunJob,
  type WorkerMessage,
} from "./worker-messages.ts";

const clientRetries = 2;
let calls = 0;

type HostAnswer = Extract<HostMessage, { call: number }>;

/** One task in the hands of the agent, on the thread's side. */
export class AgentRun {
  readonly key: number;
  outcome: WorkerMessage;
  readonly #job: RunJob;
  readonly #post: (message: WorkerMessage) => void;
  readonly #abort = new AbortController();
  readonly #context: AgentContext;
  readonly #toolCalls = new Map<number, PromiseWithResolvers<ToolAnswer>>();
  /** Rewards and traced calls that have no place in the order yet. */
  readonly #unplaced = new Map<number, PromiseWithResolvers<void>>();

  constructor(
    job: RunJob,
    settings: JsonObject,
    post: (message: WorkerMessage) => void,
    log: (line: string) => void,
  ) {
    this.key = job.key;
    this.outcome = { type: "finished", key: job.key, reward: null };
    this.#job = job;
    this.#post = post;
    const { rolloutId, attemptId, mode, llm, resources } = job;
    this.#context = {
      rolloutId,
      attemptId,
      mode,
      llm,
      resources,
      log,
      settings: structuredClone(settings),
      signal: this.#abort.signal,
      tools: {
        list: async () => structuredClone(job.tools),
        call: (name, args, options) => this.#callTool(name, args, options?.limitSeconds),
      },
      reward: (value) => this.#reward(finiteReward(value)),
      client: () => this.#client(),
    };
  }

  /** Never throws: what became of it is `outcome`. */
  async execute(agent: Agent): Promise<void> {
    try {
      // A rollout's own settings are checked here, so that a wrong one fails its rollout and no other.
      const { agentSettings } = this.#job;
      const context = {
        ...this.#context,
        settings: mergeSettings(agent.name, this.#context.settings, agentSettings),
      };
      const reward = rewardOf(await agent.run(this.#job.task, context));
      this.outcome = { type: "finished", key: this.key, reward };
    } catch (error) {
      this.outcome = { type: "threw", key: this.key, error: reportError(error) };
    }
  }

  abort(reason: string): void {
    this.#abort.abort(new DOMException(`the attempt was stopped: ${reason}`, "AbortError"));
  }

  takeAnswer(message: HostAnswer): void {
    if (message.type === "placed") {
      this.#unplaced.get(message.call)?.resolve();
      this.#unplaced.delete(message.call);
      return;
    }
    const waiting = this.#toolCalls.get(message.call);
    if (waiting === undefined) return;
    this.#toolCalls.delete(message.call);
    if (message.type === "tool-answer") waiting.resolve(message.answer);
    else waiting.reject(toError(message.error));
  }

  #callTool(name: string, args: JsonObject, limitSeconds: number | undefined): Promise<ToolAnswer> {
    if (limitSeconds !== undefined && !(limitSeconds > 0)) {
      return Promise.reject(new RangeError(`limitSeconds is ${limitSeconds}; give a number above 0`));
    }
    const call = ++calls;
    const waiting = Promise.withResolvers<ToolAnswer>();
    this.#toolCalls.set(call, waiting);
    const limit = limitSeconds === undefined ? {} : { limitMs: limitSeconds * 1000 };
    this.#post({ type: "tool-call", key: this.key, call, name, arguments: args, ...limit });
    return waiting.promise;
  }

  #reward(value: number): void {
    this.#post({ type: "reward", key: this.key, call: this.#place(), value, time: Date.now() / 1000 });
  }

  #place(): number {
    const call = ++calls;
    this.#unplaced.set(call, Promise.withResolvers());
    return call;
  }

  /** A call sorts after what came before it, though a proxy numbers the one and the host the other. */
  async #allPlaced(): Promise<void> {
    await Promise.all([...this.#unplaced.values()].map(({ promise }) => promise));
  }

  #client(): OpenAI {
    const { baseURL, apiKey } = this.#job.llm;
    const stopped = this.#abort.signal;
    const fetch = this.#job.tracer === "openai" ? this.#tracedFetch() : directFetch;
    return new OpenAI({
      baseURL,
      apiKey,
      maxRetries: clientRetries,
      fetch: async (url, init) => {
        await this.#allPlaced();
        const signal = init?.signal ? AbortSignal.any([init.signal, stopped]) : stopped;
        return fetch(String(url), { ...(init as RequestInit), signal });
      },
    });
  }

  #tracedFetch(): DirectFetch {
    return traceChatCalls({
      fetch: directFetch,
      onCall: (span) => this.#post({ type: "model-call", key: this.key, call: this.#place(), span }),
    });
  }
}

function toError(report: ErrorReport): Error {
  const error = new Error(report.message);
  error.name = report.type;
  return Object.assign(error, report.stderr === undefined ? {} : { stderr: report.stderr });
}
