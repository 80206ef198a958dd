import { afterAll, expect, test } from "bun:test";
import { join } from "node:path";
import { connectStore } from "../../src/client/http-store.ts";
import { freePort } from "../../src/engine/port-owner.ts";
import type { AttemptedRollout } from "../../src/protocol/types.ts";
import { LoadConnection } from "../../scripts/bench/load-connection.ts";
import { until } from "../helpers/processes.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";
import { type AglProcess, startAgl } from "../real/agl-process.ts";

const folder = temporaryFolder();
const program = [process.execPath, join(import.meta.dir, "..", "..", "src", "main.ts")];
let agl: AglProcess | undefined;

afterAll(async () => {
  agl?.signal("SIGTERM");
  await agl?.exited;
});

async function serveStore(): Promise<number> {
  const port = freePort();
  agl = startAgl(
    ["store", "--store-port", String(port), "--store-db", join(folder, "store.db")],
    folder,
    {},
    program,
  );
  await agl.waitForLine(/^store: http/, 60_000);
  return port;
}

const dequeue = async (connection: LoadConnection, worker_id: string, wait_seconds: number) =>
  (await connection.json("POST", "/v1/agl/queues/rollouts/dequeue", {
    worker_id,
    wait_seconds,
  })) as AttemptedRollout[];

// S-5, K-4, T-24
test("512 dequeuers at once, each on a connection of its own, get 8,192 rollouts once each and leave none", async () => {
  const port = await serveStore();
  const store = connectStore(`http://127.0.0.1:${port}`);
  const connections = await Promise.all(Array.from({ length: 512 }, () => LoadConnection.open(port)));
  const taken: AttemptedRollout[][] = connections.map(() => []);
  const drain = async (connection: LoadConnection, index: number) => {
    // The first question is held, so that all have asked before there is anything.
    for (let wait = 60; ; wait = 0) {
      const rollouts = await dequeue(connection, `Worker-${index}`, wait);
      if (rollouts.length === 0) return;
      taken[index]!.push(...rollouts);
    }
  };
  const drained = Promise.all(connections.map(drain));
  await until("all are held", async () => (await store.queryWorkers({ status_in: ["idle"] })).total === 512);

  const tasks = Array.from({ length: 8_192 }, (_, input) => ({ input }));
  const enqueued = await store.enqueueRollouts(tasks);
  await drained;

  const handedOut = taken.flat();
  expect(handedOut).toHaveLength(8_192);
  expect(handedOut.map(({ input }) => input).toSorted((a, b) => Number(a) - Number(b))).toEqual(
    enqueued.map(({ input }) => input),
  );
  expect(taken.filter((rollouts) => rollouts.length === 0)).toEqual([]);
  const attempts = (await store.queryRollouts({})).items.map((rollout) =>
    "attempt" in rollout ? [rollout.status, rollout.attempt.sequence_id] : [],
  );
  expect(attempts).toEqual(enqueued.map(() => ["preparing", 1]));
  expect((await store.statistics()).total_attempts).toBe(8_192);
  expect(await store.dequeueRollouts({})).toEqual([]);
  for (const connection of connections) connection.close();
  await store.close();
}, 60_000);
