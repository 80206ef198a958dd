import { closeAll, numbersBelow, openConnections, overConnections } from "./connections.ts";
import { LoadConnection } from "./load-connection.ts";
import type { AttemptName } from "./closed-loop.ts";

const prefix = "/v1/agl";
const enqueuePath = `${prefix}/queues/rollouts/enqueue`;
const dequeuePath = `${prefix}/queues/rollouts/dequeue`;

/** Fills the queue, 1,000 rollouts a request. */
export async function fillQueue({ port, rollouts }: { port: number; rollouts: number }): Promise<void> {
  const connection = await LoadConnection.open(port);
  for (let left = rollouts; left > 0; left -= 1000) {
    const some = Array.from({ length: Math.min(1000, left) }, (_, task) => ({ input: { task } }));
    await connection.json("POST", enqueuePath, { rollouts: some });
  }
  connection.close();
}

/** Times of single dequeues; as many rollouts are enqueued again afterwards. */
export async function timeDequeues({ port, count }: { port: number; count: number }): Promise<number[]> {
  const connection = await LoadConnection.open(port);
  const times: number[] = [];
  for (let taken = 0; taken < count; taken += 1) {
    const sent = performance.now();
    const [rollout] = await connection.json("POST", dequeuePath, { limit: 1, worker_id: "runner" });
    times.push(performance.now() - sent);
    if (rollout === undefined) throw new Error("the queue was empty too early");
  }
  connection.close();
  await fillQueue({ port, rollouts: count });
  return times;
}

/** Ids in the order of the answers: `dequeuers` at once, until each finds the queue empty. */
export async function drainQueue(job: { port: number; dequeuers: number }): Promise<string[]> {
  const connections = await openConnections(job.port, job.dequeuers);
  const taken: string[] = [];
  await Promise.all(
    connections.map(async (connection, index) => {
      for (;;) {
        const body = { limit: 1, worker_id: `dequeuer-${index}` };
        const [rollout] = await connection.json("POST", dequeuePath, body);
        if (rollout === undefined) return;
        taken.push(rollout.rollout_id);
      }
    }),
  );
  closeAll(connections);
  return taken;
}

/** Rollouts that are started, for spans to belong to. */
export async function startAttempts({
  port,
  count,
}: {
  port: number;
  count: number;
}): Promise<AttemptName[]> {
  const connections = await openConnections(port, Math.min(32, count));
  const attempts: AttemptName[] = [];
  await overConnections(connections, numbersBelow(count), async (connection, input) => {
    const started = await connection.json("POST", `${prefix}/rollouts`, { input });
    attempts.push({ rolloutId: started.rollout_id, attemptId: started.attempt.attempt_id });
  });
  closeAll(connections);
  return attempts;
}

/** Times of reading all spans of single attempts. */
export async function timeReads(job: { port: number; attempts: AttemptName[] }): Promise<number[]> {
  const connection = await LoadConnection.open(job.port);
  const times: number[] = [];
  for (const { rolloutId, attemptId } of job.attempts) {
    const query = JSON.stringify({ rollout_id: rolloutId, attempt_id: attemptId });
    const sent = performance.now();
    const { status, body } = await connection.post(`${prefix}/spans/search`, query);
    times.push(performance.now() - sent);
    if (status !== 200 || body.length < 100) throw new Error(`POST /spans/search: ${status}`);
  }
  connection.close();
  return times;
}
