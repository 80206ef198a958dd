import { closeAll, numbersBelow, openConnections, overConnections } from "./connections.ts";
import { LoadConnection } from "./load-connection.ts";
import type { Scenario } from "./scenarios.ts";

export interface AlgorithmJob {
  port: number;
  scenario: Scenario;
  limitSeconds: number;
}

export interface AlgorithmResult {
  rollouts: number;
  seconds: number;
  requests: number;
}

/** Enqueue requests hold one rollout each; so many are under way at a time, and as many span queries. */
const inFlightRequests = 32;
/** One wait asks for the oldest of the open rollouts; the next is asked after a rest, so that it finds several. */
const waitWindow = 512;
const waitRestMs = 50;

/** The published benchmark's algorithm: enqueues, waits, and checks the spans of every finished rollout. */
export async function batchAlgorithm(job: AlgorithmJob): Promise<AlgorithmResult> {
  const algorithm = new Algorithm(job);
  const started = performance.now();
  const expired = Bun.sleep(job.limitSeconds * 1000).then(() => {
    throw new Error(`${job.scenario.name} was not done within ${job.limitSeconds} s`);
  });
  await Promise.race([algorithm.run(), expired]);
  return {
    rollouts: algorithm.checked,
    seconds: (performance.now() - started) / 1000,
    requests: algorithm.requests,
  };
}

class Algorithm {
  checked = 0;
  requests = 0;
  readonly #port: number;
  readonly #scenario: Scenario;
  #submitted = 0;
  /** Rollouts that are not checked yet, oldest first, with their tasks. */
  readonly #open = new Map<string, string>();

  constructor({ port, scenario }: AlgorithmJob) {
    this.#port = port;
    this.#scenario = scenario;
  }

  async run(): Promise<void> {
    if (this.#scenario.mode === "single") return this.#runSingle();
    const { mode, tasks, batch, inFlight } = this.#scenario;
    const enqueuing = await openConnections(this.#port, inFlightRequests);
    const checking = await openConnections(this.#port, inFlightRequests);
    const waiting = await LoadConnection.open(this.#port);
    while (this.checked < tasks) {
      const room = mode === "batch" ? this.#open.size === 0 : this.#open.size < inFlight;
      const more = Math.min(batch, tasks - this.#submitted);
      const submitting = room && more > 0 ? this.#submit(enqueuing, more) : Promise.resolve();
      do await this.#check(checking, await this.#finished(waiting));
      while (this.#open.size > 0 && (mode === "batch" || this.#submitted === tasks));
      await submitting;
    }
    closeAll([...enqueuing, ...checking, waiting]);
  }

  async #submit(connections: LoadConnection[], count: number): Promise<void> {
    await this.#addResources(connections[0]!);
    await overConnections(connections, numbersBelow(count), async (connection) => {
      await this.#enqueue(connection);
    });
  }

  /** Those of the oldest open rollouts that are finished; waits for the first of them. */
  async #finished(connection: LoadConnection): Promise<{ rollout_id: string; status: string }[]> {
    const rolloutIds = [...this.#open.keys().take(waitWindow)];
    const body = { rollout_ids: rolloutIds, timeout: 0, wait_seconds: 20 };
    const finished =
      rolloutIds.length === 0 ? [] : await this.#request(connection, "POST", "/waits/rollouts", body);
    await Bun.sleep(waitRestMs);
    return finished;
  }

  async #check(
    connections: LoadConnection[],
    finished: { rollout_id: string; status: string }[],
  ): Promise<void> {
    await overConnections(connections, finished, async (connection, { rollout_id: id, status }) => {
      if (status !== "succeeded") throw new Error(`rollout ${id} is ${status}`);
      const query = { rollout_id: id, attempt_id: "latest" };
      const { items } = await this.#request(connection, "POST", "/spans/search", query);
      checkSpans(items, this.#open.get(id)!);
      this.#open.delete(id);
      this.checked += 1;
    });
  }

  /** One waiter per rollout, at most `inFlight` of them. */
  async #runSingle(): Promise<void> {
    const { tasks, inFlight } = this.#scenario;
    const connections = await openConnections(this.#port, Math.min(inFlight, tasks));
    await overConnections(connections, numbersBelow(tasks), async (connection) => {
      await this.#addResources(connection);
      const rolloutId = await this.#enqueue(connection);
      const body = { rollout_ids: [rolloutId], timeout: 0, wait_seconds: 20 };
      let finished: { rollout_id: string; status: string }[] = [];
      while (finished.length === 0)
        finished = await this.#request(connection, "POST", "/waits/rollouts", body);
      await this.#check([connection], finished);
    });
    closeAll(connections);
  }

  async #addResources(connection: LoadConnection): Promise<void> {
    const endpoint = `http://127.0.0.1:${this.#submitted}/v1`;
    const llm = {
      resource_type: "llm",
      endpoint,
      model: `model-${this.#submitted}`,
      sampling_parameters: {},
    };
    await this.#request(connection, "POST", "/resources", { llm });
  }

  async #enqueue(connection: LoadConnection): Promise<string> {
    const task = `task-${this.#submitted}`;
    this.#submitted += 1;
    const rollouts = [{ input: task, mode: "train" }];
    const [rollout] = await this.#request(connection, "POST", "/queues/rollouts/enqueue", { rollouts });
    this.#open.set(rollout.rollout_id, task);
    return rollout.rollout_id;
  }

  #request(connection: LoadConnection, method: "GET" | "POST", path: string, body: unknown): Promise<any> {
    this.requests += 1;
    return connection.json(method, `/v1/agl${path}`, body);
  }
}

function checkSpans(spans: { attributes: Record<string, unknown> }[], task: string): void {
  if (!spans.some(({ attributes }) => attributes["task"] === task))
    throw new Error(`${task} is in no span of its rollout`);
  const rewards = spans.map(({ attributes }) => attributes["agentlightning.reward.0.value"]);
  const last = rewards.filter((value) => value !== undefined).at(-1);
  if (typeof last !== "number" || last < 1 || last > 2)
    throw new Error(`${task}: the last reward is ${String(last)}`);
}
