import { connectStore } from "../../src/client/http-store.ts";
import { directFetch } from "../../src/client/loopback-fetch.ts";
import type { StoreApi } from "../../src/protocol/store-api.ts";
import type { AttemptedRollout } from "../../src/protocol/types.ts";

export interface WakeJob {
  port: number;
  /** A server that only parses, for the round trips. */
  parseOnlyPort: number;
  /** How often it is measured. */
  rounds: number;
}

export interface WakeResult {
  roundTripMs: number[];
  wakeMs: number[];
}

/** Until a request that waits is surely held by the store. */
const heldMs = 3;
const waitSeconds = 20;
const twoKilobytes = JSON.stringify({ text: "x".repeat(2000) });

/** From the moment an algorithm enqueues to the moment an idle runner has the rollout (B2). */
export function startLatency(job: WakeJob): Promise<WakeResult> {
  return measure(job, async (store) => {
    const dequeue = { limit: 1, worker_id: "runner", wait_seconds: waitSeconds };
    const taken = store
      .dequeueRollouts(dequeue)
      .then(([rollout]) => ({ rollout: rollout!, at: performance.now() }));
    await Bun.sleep(heldMs);
    const sent = performance.now();
    const enqueued = store.enqueueRollouts([{ input: "a task" }]);
    const { rollout, at } = await taken;
    await enqueued;
    await finish(store, rollout);
    return at - sent;
  });
}

/** From the moment a runner finishes the last attempt to the moment the waiting algorithm knows (B3). */
export function finishLatency(job: WakeJob): Promise<WakeResult> {
  return measure(job, async (store) => {
    const started = await store.startRollout({ input: "a task" });
    const wait = { rollout_ids: [started.rollout_id], timeout: 0, wait_seconds: waitSeconds };
    const woken = store.waitForRollouts(wait).then(() => performance.now());
    await Bun.sleep(heldMs);
    const sent = performance.now();
    const finished = finish(store, started);
    const at = await woken;
    await finished;
    return at - sent;
  });
}

/** Through the client that runners and algorithms use; every measurement beside a round trip of the same minute. */
async function measure(job: WakeJob, wake: (store: StoreApi) => Promise<number>): Promise<WakeResult> {
  const store = connectStore(`http://127.0.0.1:${job.port}`);
  const result: WakeResult = { roundTripMs: [], wakeMs: [] };
  for (let round = 0; round < job.rounds; round += 1) {
    result.roundTripMs.push(await roundTrip(job.parseOnlyPort));
    result.wakeMs.push(await wake(store));
  }
  await store.close();
  return result;
}

/** 2 KB each way by `fetch`. */
async function roundTrip(port: number): Promise<number> {
  const headers = { "content-type": "application/json" };
  const sent = performance.now();
  const answer = await directFetch(`http://127.0.0.1:${port}/`, {
    method: "POST",
    headers,
    body: twoKilobytes,
  });
  await answer.text();
  return performance.now() - sent;
}

async function finish(store: StoreApi, { rollout_id: id, attempt }: AttemptedRollout): Promise<void> {
  await store.updateAttempt(id, attempt.attempt_id, { status: "succeeded" });
}
