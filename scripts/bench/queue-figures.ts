import type { Bench } from "./bench.ts";
import { interleave } from "./pairs.ts";
import { median, quantile, spreadOf } from "./statistics.ts";

/** B2 and B3: how soon those who wait are woken, in round trips of the same run. */
export async function wakeFigures(bench: Bench, id: "B2" | "B3"): Promise<void> {
  const [store, parseOnly] = [await bench.store(), await bench.parseOnly()];
  const job = id === "B2" ? "startLatency" : "finishLatency";
  const rounds = bench.count(200, 20);
  const turn = () => bench.load().run(job, { port: store.port, parseOnlyPort: parseOnly.port, rounds });
  await turn();
  const turns = [];
  for (let pair = 0; pair < bench.options.pairs; pair += 1) turns.push(await turn());
  const ratios = turns.map(({ wakeMs, roundTripMs }) => median(wakeMs) / median(roundTripMs));
  const { median: value, least, most } = spreadOf(ratios);
  const syncMs = await bench.load().run("syncTimes", { folder: bench.folder, seconds: 1 });
  bench.figures.add({
    id,
    name:
      id === "B2" ? "enqueue to start, idle runner: p50" : "last attempt finished to algorithm awake: p50",
    value,
    unit: "round trips",
    spread: [least, most],
    target: { at: "most", value: 4 },
    detail: {
      wake_p50_ms: median(turns.flatMap(({ wakeMs }) => wakeMs)),
      wake_p99_ms: quantile(
        turns.flatMap(({ wakeMs }) => wakeMs),
        0.99,
      ),
      round_trip_p50_ms: median(turns.flatMap(({ roundTripMs }) => roundTripMs)),
      fdatasync_p50_ms: median(syncMs),
      fdatasync_p50_in_round_trips: median(syncMs) / median(turns.flatMap(({ roundTripMs }) => roundTripMs)),
    },
    note: "through our client; the write that wakes is on disk before; a round trip is 2 KB by fetch, parsed only",
  });
  await Promise.all([store.stop(), parseOnly.stop()]);
}

/** B4: the length of the queue must not matter. */
export async function queueLength(bench: Bench): Promise<void> {
  const [long, short] = [await bench.store(), await bench.store()];
  const load = bench.load();
  const queued = bench.count(100_000, 5_000);
  await load.run("fillQueue", { port: long.port, rollouts: queued });
  await load.run("fillQueue", { port: short.port, rollouts: 100 });
  const turn = (port: number) => () => load.run("timeDequeues", { port, count: 90 });
  const pairs = await interleave(Math.max(7, bench.options.pairs), turn(long.port), turn(short.port));
  const { median: value, least, most } = spreadOf(pairs.map(([one, other]) => median(one) / median(other)));
  bench.figures.add({
    id: "B4",
    name: `dequeue p50, ${queued} queued / 100 queued`,
    value,
    unit: "",
    spread: [least, most],
    target: { at: "most", value: 1.5 },
    detail: {
      long_p50_ms: median(pairs.flatMap(([one]) => one)),
      short_p50_ms: median(pairs.flatMap(([, other]) => other)),
    },
  });
  await Promise.all([long.stop(), short.stop()]);
}

/** B5: each rollout goes to exactly one of 512 who ask at once. */
export async function handedOutOnce(bench: Bench): Promise<void> {
  const store = await bench.store();
  const load = bench.load();
  const rollouts = bench.count(8_192, 1_024);
  await load.run("fillQueue", { port: store.port, rollouts });
  const started = performance.now();
  const taken = await load.run("drainQueue", { port: store.port, dequeuers: 512 });
  const seconds = (performance.now() - started) / 1000;
  const distinct = new Set(taken).size;
  bench.figures.add({
    id: "B5",
    name: `512 dequeuers, ${rollouts} rollouts: not handed out exactly once`,
    value: rollouts - distinct + (taken.length - distinct),
    unit: "",
    target: { at: "exactly", value: 0 },
    detail: { handed_out: taken.length, distinct, dequeues_per_s: taken.length / seconds },
  });
  await store.stop();
}
