import { createRandom } from "../../src/algorithm/random.ts";
import { closeAll, numbersBelow, openConnections, overConnections } from "./connections.ts";
import { LoadConnection } from "./load-connection.ts";
import { flatAttributes, newSpanId, spanBody } from "./span-bodies.ts";
import type { AttributesText } from "./span-bodies.ts";

/** agentlightning's published micro benchmarks: tasks at full size, and how many of them are under way at a time. */
export const microWorkloads = {
  worker: { tasks: 10_240, concurrency: 1_024, requestsPerTask: 1 },
  "dequeue-empty": { tasks: 10_240, concurrency: 1_024, requestsPerTask: 2 },
  rollout: { tasks: 4_096, concurrency: 256, requestsPerTask: 6 },
  "dequeue-only": { tasks: 8_192, concurrency: 512, requestsPerTask: 1 },
  "dequeue-update-attempt": { tasks: 8_192, concurrency: 512, requestsPerTask: 10 },
};

export type MicroName = keyof typeof microWorkloads;

export interface MicroJob {
  port: number;
  name: MicroName;
  tasks: number;
}

export interface MicroResult {
  requests: number;
  seconds: number;
}

const prefix = "/v1/agl";
const snapshot = { host: { cpus: 2 }, cpu: { percent: 12.5 }, memory: { used_gb: 3.2, percent: 14 } };
const spansPerAttempt = 4;
const pools = new Map<number, AttributesText[]>();

/** Runs one of them to its end; a request that fails, or work that is left over, is an error. */
export async function microWorkload({ port, name, tasks }: MicroJob): Promise<MicroResult> {
  const { concurrency, requestsPerTask } = microWorkloads[name];
  const connections = await openConnections(port, Math.min(concurrency, tasks));
  if (name === "dequeue-only" || name === "dequeue-update-attempt") await enqueue(connections[0]!, tasks);
  const started = performance.now();
  await overConnections(connections, numbersBelow(tasks), work[name]);
  const seconds = (performance.now() - started) / 1000;
  if (name === "dequeue-only") await requireEmptyQueue(connections[0]!);
  closeAll(connections);
  return { requests: tasks * requestsPerTask, seconds };
}

const work: Record<MicroName, (connection: LoadConnection, task: number) => Promise<void>> = {
  worker: heartbeat,
  async "dequeue-empty"(connection, task) {
    const path = `${prefix}/queues/rollouts/dequeue`;
    const taken = await connection.json("POST", path, { limit: 1, worker_id: workerOf(task) });
    if (taken.length > 0) throw new Error("the queue was not empty");
    await heartbeat(connection, task);
  },
  async rollout(connection, task) {
    const started = await connection.json("POST", `${prefix}/rollouts`, { input: { task } });
    const numbers = Array.from({ length: spansPerAttempt }, (_, index) => task * spansPerAttempt + index + 1);
    await addSpansAndFinish(connection, started, numbers, 1);
  },
  async "dequeue-only"(connection) {
    await takeOne(connection, {});
  },
  async "dequeue-update-attempt"(connection, task) {
    const taken = await takeOne(connection, { worker_id: `Worker-${task}` });
    const ids = { rollout_id: taken.rollout_id, attempt_id: taken.attempt.attempt_id };
    const numbers: number[] = [];
    for (let span = 0; span < spansPerAttempt; span += 1) {
      numbers.push((await connection.json("POST", `${prefix}/spans/next`, ids)).sequence_id);
    }
    await addSpansAndFinish(connection, taken, numbers, 32);
  },
};

async function heartbeat(connection: LoadConnection, task: number): Promise<void> {
  const path = `${prefix}/workers/${workerOf(task)}`;
  await connection.json("POST", path, { heartbeat_stats: snapshot });
}

async function addSpansAndFinish(
  connection: LoadConnection,
  attempted: { rollout_id: string; attempt: { attempt_id: string } },
  numbers: number[],
  attributeCount: number,
): Promise<void> {
  const [rolloutId, { attempt_id: attemptId }] = [attempted.rollout_id, attempted.attempt];
  const attributes = attributesOf(attributeCount);
  for (const sequenceId of numbers) {
    const body = spanBody({
      rolloutId,
      attemptId,
      sequenceId,
      spanId: newSpanId(),
      name: `micro-span-${sequenceId}`,
      attributes: attributes[sequenceId % attributes.length]!,
    });
    const { status } = await connection.post(`${prefix}/spans`, body);
    if (status !== 201) throw new Error(`POST /spans: ${status}`);
  }
  const path = `${prefix}/rollouts/${rolloutId}/attempts/${attemptId}`;
  await connection.json("POST", path, { status: "succeeded" });
}

async function takeOne(connection: LoadConnection, worker: { worker_id?: string }): Promise<any> {
  const [taken] = await connection.json("POST", `${prefix}/queues/rollouts/dequeue`, { limit: 1, ...worker });
  if (taken === undefined) throw new Error("the queue was empty too early");
  return taken;
}

async function enqueue(connection: LoadConnection, count: number): Promise<void> {
  const rollouts = Array.from({ length: count }, (_, task) => ({ input: { task: `Task-${task}` } }));
  await connection.json("POST", `${prefix}/queues/rollouts/enqueue`, { rollouts });
}

async function requireEmptyQueue(connection: LoadConnection): Promise<void> {
  const query = { status_in: ["queuing"], limit: 1 };
  const { total } = await connection.json("POST", `${prefix}/rollouts/search`, query);
  if (total !== 0) throw new Error(`${total} rollouts were left in the queue`);
}

function workerOf(task: number): string {
  return `Worker-${task % 1024}`;
}

function attributesOf(count: number): AttributesText[] {
  const random = createRandom(count);
  const pool = pools.get(count) ?? Array.from({ length: 64 }, () => flatAttributes(random, count));
  pools.set(count, pool);
  return pool;
}
