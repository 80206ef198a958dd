import { Database } from "bun:sqlite";
import type { Bench } from "./bench.ts";
import { interleave } from "./pairs.ts";
import { median, spreadOf } from "./statistics.ts";

/** B6: kill -9 under load, and the start after it. */
export async function crashFigures(bench: Bench): Promise<void> {
  await acknowledgedWrites(bench);
  await restart(bench);
}

async function acknowledgedWrites(bench: Bench): Promise<void> {
  const db = bench.newFile();
  const kills = bench.count(5, 2);
  let acknowledged = 0;
  let lost = 0;
  for (let kill = 0; kill < kills; kill += 1) {
    const store = await bench.store(db);
    const writing = bench.load().run("writeUntilDeath", { port: store.port, writers: 32 });
    await Bun.sleep(300 + Math.random() * 700);
    await store.stop("SIGKILL");
    const written = await writing;
    acknowledged += written.rollouts.length + written.spans.length + written.finished.length;
    lost += countLost(db, written);
  }
  bench.figures.add({
    id: "B6",
    name: `acknowledged writes lost in ${kills} kill -9 under load`,
    value: lost,
    unit: "",
    target: { at: "exactly", value: 0 },
    detail: { acknowledged },
  });
  const findings = await integrity(bench, db);
  bench.figures.add({
    id: "B6",
    name: "findings of the integrity check after it",
    value: findings.filter((finding) => finding !== "ok").length,
    unit: "",
    target: { at: "exactly", value: 0 },
  });
}

/** Reads the file as another program would. */
function countLost(
  path: string,
  written: {
    rollouts: string[];
    spans: { rolloutId: string; spanId: string }[];
    finished: string[];
  },
): number {
  const db = new Database(path);
  const count = (sql: string, keys: unknown[]) =>
    db.query<{ n: number }, [string]>(sql).get(JSON.stringify(keys))!.n;
  const among = "(SELECT value FROM json_each(?))";
  const rollouts = count(`SELECT count(*) AS n FROM rollouts WHERE rollout_id IN ${among}`, written.rollouts);
  const finished = count(
    `SELECT count(*) AS n FROM rollouts WHERE status = 'succeeded' AND rollout_id IN ${among}`,
    written.finished,
  );
  const spanIds = written.spans.map(({ spanId }) => spanId);
  const spans = count(`SELECT count(*) AS n FROM spans WHERE span_id IN ${among}`, spanIds);
  db.close();
  return written.rollouts.length - rollouts + (written.finished.length - finished) + (spanIds.length - spans);
}

async function integrity(bench: Bench, path: string): Promise<string[]> {
  const store = await bench.store(path);
  await store.stop();
  const db = new Database(path);
  const rows = db.query<{ integrity_check: string }, []>("PRAGMA integrity_check").all();
  db.close();
  return rows.map(({ integrity_check: finding }) => finding);
}

async function restart(bench: Bench): Promise<void> {
  const full = bench.newFile();
  const rollouts = bench.count(100_000, 5_000);
  const store = await bench.store(full);
  await bench.load().run("fillQueue", { port: store.port, rollouts });
  await store.stop("SIGKILL");
  const start = (path: () => string) => async () => {
    const started = performance.now();
    const server = await bench.store(path());
    const readyMs = performance.now() - started;
    await server.stop("SIGKILL");
    return readyMs;
  };
  const pairs = await interleave(
    bench.options.pairs,
    start(() => full),
    start(() => bench.newFile()),
  );
  const { median: value, least, most } = spreadOf(pairs.map(([one, other]) => one / other));
  bench.figures.add({
    id: "B6",
    name: `start after kill -9 with ${rollouts} rollouts / empty start`,
    value,
    unit: "",
    spread: [least, most],
    target: { at: "most", value: 3 },
    detail: {
      ready_ms: median(pairs.map(([one]) => one)),
      empty_ready_ms: median(pairs.map(([, other]) => other)),
    },
  });
}
