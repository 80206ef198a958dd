import { HttpConnection } from "./http-connection.ts";

export interface WakeJob {
  port: number;
  /** How often it is measured. */
  rounds: number;
}

export interface WakeResult {
  roundTripMs: number[];
  wakeMs: number[];
}

const prefix = "/v1/agl";
/** Until a request that waits is surely held by the store. */
const heldMs = 3;

/** From the moment an algorithm enqueues to the moment an idle runner has the rollout (B2). */
export async function startLatency({ port, rounds }: WakeJob): Promise<WakeResult> {
  const [runner, algorithm] = [await HttpConnection.open(port), await HttpConnection.open(port)];
  const result: WakeResult = { roundTripMs: [], wakeMs: [] };
  for (let round = 0; round < rounds; round += 1) {
    result.roundTripMs.push(await roundTrip(algorithm));
    const dequeue = { limit: 1, worker_id: "runner", wait_seconds: 20 };
    const taken = runner
      .json("POST", `${prefix}/queues/rollouts/dequeue`, dequeue)
      .then((rollouts) => ({ rollouts, at: performance.now() }));
    await Bun.sleep(heldMs);
    const sent = performance.now();
    const enqueued = algorithm.json("POST", `${prefix}/queues/rollouts/enqueue`, {
      rollouts: [{ input: round }],
    });
    const { rollouts, at } = await taken;
    await enqueued;
    result.wakeMs.push(at - sent);
    await finish(algorithm, rollouts[0]);
  }
  runner.close();
  algorithm.close();
  return result;
}

/** From the moment a runner finishes the last attempt to the moment the waiting algorithm knows (B3). */
export async function finishLatency({ port, rounds }: WakeJob): Promise<WakeResult> {
  const [runner, algorithm] = [await HttpConnection.open(port), await HttpConnection.open(port)];
  const result: WakeResult = { roundTripMs: [], wakeMs: [] };
  for (let round = 0; round < rounds; round += 1) {
    result.roundTripMs.push(await roundTrip(runner));
    const started = await runner.json("POST", `${prefix}/rollouts`, { input: round });
    const wait = { rollout_ids: [started.rollout_id], timeout: 0, wait_seconds: 20 };
    const woken = algorithm.json("POST", `${prefix}/waits/rollouts`, wait).then(() => performance.now());
    await Bun.sleep(heldMs);
    const sent = performance.now();
    const finished = finish(runner, started);
    result.wakeMs.push((await woken) - sent);
    await finished;
  }
  runner.close();
  algorithm.close();
  return result;
}

async function roundTrip(connection: HttpConnection): Promise<number> {
  const sent = performance.now();
  await connection.get(`${prefix}/health`);
  return performance.now() - sent;
}

async function finish(
  connection: HttpConnection,
  { rollout_id: rolloutId, attempt }: { rollout_id: string; attempt: { attempt_id: string } },
): Promise<void> {
  const path = `${prefix}/rollouts/${rolloutId}/attempts/${attempt.attempt_id}`;
  await connection.json("POST", path, { status: "succeeded" });
}
