import { createRandom } from "../../src/algorithm/random.ts";
import type { Random } from "../../src/algorithm/random.ts";
import { planRollout } from "./agent-plan.ts";
import type { AgentShape, PlannedSpan } from "./agent-plan.ts";
import { closeAll, openConnections } from "./connections.ts";
import { LoadConnection } from "./load-connection.ts";
import { nestedAttributes, newSpanId, rewardAttributes, spanBody } from "./span-bodies.ts";
import type { AttributesText } from "./span-bodies.ts";

export interface RunnersJob extends AgentShape {
  port: number;
  runners: number;
}

export interface RunnersResult {
  rollouts: number;
  spans: number;
  requests: number;
}

/** Runners of the published agent, each with a connection of its own, until they are told to stop. */
export async function agentRunners(job: RunnersJob, stop: AbortSignal): Promise<RunnersResult> {
  const random = createRandom(17);
  const attributes = Array.from({ length: 512 }, () => nestedAttributes(random));
  const result: RunnersResult = { rollouts: 0, spans: 0, requests: 0 };
  const connections = await openConnections(job.port, job.runners);
  stop.addEventListener("abort", () => closeAll(connections));
  const runners = connections.map(async (connection, index) => {
    const runner = new Runner(connection, `runner-${index}`, { job, random, attributes, result });
    while (!stop.aborted) await runner.takeOne();
  });
  await Promise.all(
    runners.map((runner) =>
      runner.catch((error) => {
        if (!stop.aborted) throw error;
      }),
    ),
  );
  return result;
}

interface RunnerContext {
  job: RunnersJob;
  random: Random;
  attributes: AttributesText[];
  result: RunnersResult;
}

class Runner {
  readonly #connection: LoadConnection;
  readonly #name: string;
  readonly #context: RunnerContext;

  constructor(connection: LoadConnection, name: string, context: RunnerContext) {
    this.#connection = connection;
    this.#name = name;
    this.#context = context;
  }

  /** Takes a rollout, reads its resources, posts each span as it ends, and finishes the attempt. */
  async takeOne(): Promise<void> {
    const taken = await this.#request("POST", "/queues/rollouts/dequeue", {
      limit: 1,
      worker_id: this.#name,
      wait_seconds: 20,
    });
    if (taken.length === 0) return;
    const { rollout_id: rolloutId, resources_id: resourcesId, input, attempt } = taken[0];
    const attemptId: string = attempt.attempt_id;
    await this.#request("GET", `/resources/${resourcesId}`);
    let sequenceId = 0;
    for (const step of planRollout(this.#context.random, this.#context.job)) {
      if ("sleepSeconds" in step) {
        await Bun.sleep(step.sleepSeconds * 1000);
        continue;
      }
      sequenceId += 1;
      const attributes = this.#attributesOf(step.span, input);
      const { name } = step.span;
      const body = spanBody({ rolloutId, attemptId, sequenceId, spanId: newSpanId(), name, attributes });
      await this.#post("/spans", body);
      this.#context.result.spans += 1;
    }
    await this.#post(`/rollouts/${rolloutId}/attempts/${attemptId}`, '{"status":"succeeded"}');
    this.#context.result.rollouts += 1;
  }

  #attributesOf({ attributes: kind }: PlannedSpan, task: string): AttributesText {
    if (kind === "none") return "{}";
    if (typeof kind === "object") return rewardAttributes(kind.reward);
    const { attributes, random } = this.#context;
    const nested = attributes[random.integer(attributes.length)]!;
    return kind === "task" ? `{"task":${JSON.stringify(task)},${nested.slice(1)}` : nested;
  }

  async #post(path: string, body: string): Promise<void> {
    this.#context.result.requests += 1;
    const { status } = await this.#connection.post(`/v1/agl${path}`, body);
    if (status >= 300) throw new Error(`POST ${path}: ${status}`);
  }

  async #request(method: "GET" | "POST", path: string, body?: unknown): Promise<any> {
    this.#context.result.requests += 1;
    return this.#connection.json(method, `/v1/agl${path}`, body);
  }
}
