import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { statSync } from "node:fs";
import { join } from "node:path";
import { startCheckpointThread } from "../../../src/checkpoint-thread.ts";
import type { Checkpointer } from "../../../src/store/file/checkpoints.ts";
import { openStore } from "../../../src/store/sqlite-store.ts";
import { eventually } from "../../helpers/processes.ts";
import { temporaryFolder } from "../../helpers/temporary-folder.ts";

const folder = temporaryFolder();
const rollouts = (count: number) => Array.from({ length: count }, (_, input) => ({ input }));

test("what is written moves from the log into the file while the store goes on", async () => {
  const path = join(folder, "thread.db");
  const store = openStore({ path, startCheckpointer: startCheckpointThread });
  const empty = statSync(path).size;
  await store.enqueueRollouts(rollouts(3_000));
  const moved = () => statSync(path).size > empty + 100_000;
  expect(await eventually(moved)).toBe(true);
  await store.enqueueRollouts(rollouts(3_000));
  expect((await store.statistics()).total_rollouts).toBe(6_000);
  await store.close();
  const db = new Database(path, { readonly: true });
  expect(db.query("SELECT count(*) AS n FROM rollouts").get()).toEqual({ n: 6_000 });
  expect(db.query("PRAGMA integrity_check").all()).toEqual([{ integrity_check: "ok" }]);
  db.close();
});

/** Counts what it is asked for. */
function countingCheckpointer(checkpoint: () => Promise<void>) {
  const counts = { started: 0, checkpoints: 0, stopped: 0 };
  const start = (): Checkpointer => {
    counts.started += 1;
    return {
      checkpoint: () => {
        counts.checkpoints += 1;
        return checkpoint();
      },
      stop: async () => void (counts.stopped += 1),
    };
  };
  return { counts, start };
}

test("a store with little to do starts no thread", async () => {
  const { counts, start } = countingCheckpointer(async () => {});
  const store = openStore({ path: join(folder, "little.db"), startCheckpointer: start });
  await store.enqueueRollouts(rollouts(10));
  await store.close();
  expect(counts).toEqual({ started: 0, checkpoints: 0, stopped: 0 });
});

test("one checkpoint runs at a time, and a stop waits for it", async () => {
  const running = Promise.withResolvers<void>();
  const { counts, start } = countingCheckpointer(() => running.promise);
  const store = openStore({ path: join(folder, "one.db"), startCheckpointer: start });
  for (let round = 0; round < 3; round += 1) await store.enqueueRollouts(rollouts(2_000));
  expect(counts).toEqual({ started: 1, checkpoints: 1, stopped: 0 });
  let closed = false;
  const closing = store.close().then(() => (closed = true));
  await Bun.sleep(20);
  expect(closed).toBe(false);
  running.resolve();
  await closing;
  expect(counts.stopped).toBe(1);
});

test("a thread that does not end in order does not keep the store from releasing its file", async () => {
  const { start } = countingCheckpointer(async () => {});
  const broken = () => ({ ...start(), stop: () => Promise.reject(new Error("it is gone")) });
  const path = join(folder, "broken.db");
  const store = openStore({ path, startCheckpointer: broken });
  await store.enqueueRollouts(rollouts(2_000));
  await store.close();
  const db = new Database(path, { readonly: true });
  expect(db.query("SELECT count(*) AS n FROM holder").get()).toEqual({ n: 0 });
  db.close();
});

test("a thread that failed says so instead of being waited for", async () => {
  const missing = join(folder, "missing.db");
  const checkpointer = startCheckpointThread(missing);
  await expect(checkpointer.checkpoint()).rejects.toThrow();
  await checkpointer.stop();
  await expect(checkpointer.checkpoint()).rejects.toThrow("has ended");
});

test("when they fail, commits make them again", async () => {
  const { counts, start } = countingCheckpointer(() => Promise.reject(new Error("no thread")));
  const path = join(folder, "failing.db");
  const store = openStore({ path, startCheckpointer: start });
  for (let round = 0; round < 5; round += 1) await store.enqueueRollouts(rollouts(5_000));
  expect(counts.checkpoints).toBe(1);
  expect(statSync(`${path}-wal`).size).toBeLessThan(30_000_000);
  expect(statSync(path).size).toBeGreaterThan(1_000_000);
  await store.close();
});
