import { afterAll, expect, test } from "bun:test";
import { join } from "node:path";
import { connectStore } from "../../src/client/http-store.ts";
import { freePort } from "../../src/engine/port-owner.ts";
import { runAgl } from "../helpers/run-agl.ts";
import { sampleSpan } from "../helpers/sample-span.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";
import { type AglProcess, startAgl } from "../real/agl-process.ts";

const folder = temporaryFolder();
const db = join(folder, "store.db");
const rows = 5_000;
const writersAtOnce = 32;
const started: AglProcess[] = [];

afterAll(async () => {
  for (const one of started) one.signal("SIGTERM");
  await Promise.all(started.map(({ exited }) => exited));
});

function start(args: string[], script: string): AglProcess {
  const one = startAgl(args, folder, {}, [process.execPath, join(import.meta.dir, "..", "..", script)]);
  started.push(one);
  return one;
}

async function serveStore() {
  const port = freePort();
  const agl = start(["store", "--store-port", String(port), "--store-db", db], "src/main.ts");
  await agl.waitForLine(/^store: http/, 60_000);
  return { agl, store: connectStore(`http://127.0.0.1:${port}`) };
}

async function exportSpans(): Promise<string[]> {
  const { code, out, err } = await runAgl(["export", "spans", "--db", db], folder);
  expect({ code, err }).toEqual({ code: 0, err: "" });
  return out
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line).span_id);
}

// O27
test("5,000 rows are written while others read the file, one of them in a transaction without end: nobody is refused, no row is lost", async () => {
  const { agl, store } = await serveStore();
  const { rollout_id, attempt } = await store.startRollout({ input: "read by many" });
  const span = () => sampleSpan({ rollout_id, attempt_id: attempt.attempt_id });
  await store.addSpan(span());
  const reader = start([db], "test/helpers/long-reader.ts");
  await reader.waitForLine(/^at first 1$/, 60_000);
  await store.enqueueRollouts([{ input: "made after the reader began" }]);

  const written: string[] = [];
  const write = async () => {
    while (written.length < rows) {
      const row = span();
      written.push(row.span_id);
      expect(await store.addSpan(row)).not.toBeNull();
    }
  };
  let writing = true;
  const read = async () => {
    let before = 0;
    for (let reads = 0; writing || reads === 0; reads += 1) {
      const now = (await exportSpans()).length;
      expect(now).toBeGreaterThanOrEqual(before);
      before = now;
      expect(await runAgl(["show", rollout_id, "--db", db], folder)).toMatchObject({ code: 0, err: "" });
    }
  };
  const reading = read();
  await Promise.all(Array.from({ length: writersAtOnce }, write)).finally(() => (writing = false));
  await reading;

  expect((await exportSpans()).slice(1).toSorted()).toEqual(written.toSorted());
  expect((await store.statistics()).total_spans).toBe(rows + 1);
  reader.signal("SIGTERM");
  expect(await reader.exited).toBe(0);
  expect([reader.lines, reader.errors()]).toEqual([["at first 1", "at last 1", "afterwards 2"], ""]);
  await store.close();
  agl.signal("SIGTERM");
  expect(await agl.exited).toBe(0);
  expect(agl.errors()).toBe("");
}, 120_000);

test("a store stops although somebody is still reading its file, and opens again with everything", async () => {
  const { agl, store } = await serveStore();
  const [rollout] = await store.enqueueRollouts([{ input: 1 }]);
  const reader = start([db], "test/helpers/long-reader.ts");
  await reader.waitForLine(/^at first/, 60_000);
  await store.enqueueRollouts([{ input: 2 }]);
  await store.close();
  const began = performance.now();
  agl.signal("SIGTERM");
  expect(await agl.exited).toBe(0);
  // It waited for as long as a statement of its waits for others: five seconds.
  expect(performance.now() - began).toBeLessThan(4_500);
  expect(agl.errors()).toBe("");
  const again = await serveStore();
  expect(await again.store.getRollout(rollout!.rollout_id)).toMatchObject({ input: 1 });
  reader.signal("SIGTERM");
  expect(await reader.exited).toBe(0);
  await again.store.close();
}, 60_000);
