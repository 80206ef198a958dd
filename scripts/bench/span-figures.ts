import { rmSync, statSync } from "node:fs";
import { withCpu } from "./bench.ts";
import type { Bench } from "./bench.ts";
import { twentyAttributes } from "./closed-loop.ts";
import type { ClosedLoopResult } from "./closed-loop.ts";
import { interleave } from "./pairs.ts";
import type { Server } from "./servers.ts";
import { median, quantile, spreadOf, sum } from "./statistics.ts";

const attemptCount = 64;

async function storeWithAttempts(bench: Bench, db = bench.newFile()) {
  const store = await bench.store(db);
  const attempts = await bench.load().run("startAttempts", { port: store.port, count: attemptCount });
  return { db, store, attempts };
}

/** C1: a span a request, with validation, state changes and a durable commit, against parsing alone. */
export async function singleSpans(bench: Bench): Promise<void> {
  const { store, attempts } = await storeWithAttempts(bench);
  const parseOnly = await bench.parseOnly();
  const turn = (server: Server) => async () => {
    const job = {
      port: server.port,
      connections: 64,
      seconds: bench.options.turnSeconds,
      traffic: { type: "spans", perRequest: 1, attempts } as const,
    };
    const { result, cpuMs } = await withCpu(server, () => bench.load().run("closedLoop", job));
    return { ...result, cpuMs };
  };
  const pairs = await interleave(bench.options.pairs, turn(store), turn(parseOnly));
  const rate = ({ requests, seconds }: ClosedLoopResult) => requests / seconds;
  const { median: value, least, most } = spreadOf(pairs.map(([one, other]) => rate(one) / rate(other)));
  const [cpu, baseCpu] = [0, 1].map((side) => {
    const turns = pairs.map((pair) => pair[side]!);
    return sum(turns.map(({ cpuMs }) => cpuMs)) / sum(turns.map(({ requests }) => requests));
  });
  bench.figures.add({
    id: "C1",
    name: "single-span requests/s / parse-only",
    value,
    unit: "",
    spread: [least, most],
    target: { at: "least", value: 0.55 },
    detail: {
      requests_per_s: median(pairs.map(([one]) => rate(one))),
      parse_only_requests_per_s: median(pairs.map(([, other]) => rate(other))),
      cpu_ms_per_request: cpu!,
      parse_only_cpu_ms_per_request: baseCpu!,
      p50_ms: median(pairs.map(([one]) => one.p50Ms)),
      p99_ms: median(pairs.map(([one]) => one.p99Ms)),
      span_bytes: pairs[0]![0].bytes / pairs[0]![0].requests,
    },
    note: "64 connections from 1 process, 20 attributes a span",
  });
  await Promise.all([store.stop(), parseOnly.stop()]);
}

const perRequest = 256;

/** C2, C3 and C5: batches over HTTP against bare inserts; what a core takes; what the file grows by. */
export async function spanBatches(bench: Bench, ids: ReadonlySet<string>): Promise<void> {
  const { db, store, attempts } = await storeWithAttempts(bench);
  const seconds = bench.options.turnSeconds;
  let bytes = 0;
  const http = async () => {
    const traffic = { type: "spans", perRequest, attempts } as const;
    const job = { port: store.port, connections: 4, seconds, traffic };
    const { result, cpuMs } = await withCpu(store, () => bench.load().run("closedLoop", job));
    bytes += result.bytes - result.requests * (perRequest + '{"spans":]}'.length);
    return { rows: result.requests * perRequest, seconds: result.seconds, cpuMs };
  };
  const bare = async () => {
    const result = await bench
      .load()
      .run("bareInserts", { folder: bench.folder, seconds, perCommit: perRequest });
    return { ...result, cpuMs: 0 };
  };
  const pairs = await interleave(bench.options.pairs, http, bare);
  const rate = ({ rows, seconds: time }: { rows: number; seconds: number }) => rows / time;
  const { median: value, least, most } = spreadOf(pairs.map(([one, other]) => rate(one) / rate(other)));
  const rows = sum(pairs.map(([one]) => one.rows));
  const cpuMs = sum(pairs.map(([one]) => one.cpuMs));
  const detail = {
    rows_per_s: median(pairs.map(([one]) => rate(one))),
    bare_rows_per_s: median(pairs.map(([, other]) => rate(other))),
    cpu_ms_per_request: (cpuMs / rows) * perRequest,
    cpu_us_per_span: (cpuMs / rows) * 1000,
  };
  if (ids.has("C2"))
    bench.figures.add({
      id: "C2",
      name: "rows/s over HTTP in batches / bare bun:sqlite",
      value,
      unit: "",
      spread: [least, most],
      target: { at: "least", value: 0.5 },
      detail,
      note: `${perRequest} spans a request, 4 connections from 1 process; bare: ${perRequest} rows a commit`,
    });
  if (ids.has("C3"))
    bench.figures.add({
      id: "C3",
      name: "spans/s per core, 20 attributes",
      value: rows / (cpuMs / 1000),
      unit: "spans/s",
      note: "OpenTelemetry Collector: 12,000 a core, without storing them",
    });
  await store.stop();
  if (ids.has("C5"))
    bench.figures.add({
      id: "C5",
      name: "database bytes / JSON bytes of the spans",
      value: statSync(db).size / bytes,
      unit: "",
      target: { at: "most", value: 1.2 },
      detail: { database_mb: statSync(db).size / 1e6, json_mb: bytes / 1e6, attributes: 20 },
      note: `random letters and digits, which compress badly: ${twentyAttributes()[0]!.length} bytes of attributes a span`,
    });
  rmSync(db, { force: true });
}

/** C4: reading one attempt among many spans. */
export async function attemptReads(bench: Bench): Promise<void> {
  const [many, few] = [bench.newFile(), bench.newFile()];
  const load = bench.load();
  const samples = 50;
  const spans = bench.count(1_000_000, 20_000);
  const manyAttempts = await load.run("seedSpans", { db: many, spans, samples });
  const fewAttempts = await load.run("seedSpans", { db: few, spans: 1_000, samples });
  const [large, small] = [await bench.store(many), await bench.store(few)];
  const turn = (server: Server, attempts: typeof manyAttempts) => () =>
    load.run("timeReads", { port: server.port, attempts: [...attempts, ...attempts, ...attempts] });
  const pairs = await interleave(
    Math.max(7, bench.options.pairs),
    turn(large, manyAttempts),
    turn(small, fewAttempts),
  );
  const { median: value, least, most } = spreadOf(pairs.map(([one, other]) => median(one) / median(other)));
  bench.figures.add({
    id: "C4",
    name: `reading one attempt, ${spans} spans / 1000 spans`,
    value,
    unit: "",
    spread: [least, most],
    target: { at: "most", value: 1.3 },
    detail: {
      many_p50_ms: median(pairs.flatMap(([one]) => one)),
      few_p50_ms: median(pairs.flatMap(([, other]) => other)),
    },
    note: "attempts of 20 spans",
  });
  await Promise.all([large.stop(), small.stop()]);
  for (const file of [many, few]) rmSync(file, { force: true });
}

/** C6: the slowest answers against the slowest writes of the disk. */
export async function ingestTail(bench: Bench): Promise<void> {
  const { store, attempts } = await storeWithAttempts(bench);
  const seconds = bench.options.turnSeconds;
  const traffic = { type: "spans", perRequest: 1, attempts } as const;
  const ingest = async () =>
    (await bench.load().run("closedLoop", { port: store.port, connections: 4, seconds, traffic }))
      .latenciesMs;
  const sync = () => bench.load().run("syncTimes", { folder: bench.folder, seconds });
  const pairs = await interleave(Math.max(7, bench.options.pairs), ingest, sync);
  const p99 = (values: number[]) => quantile(values, 0.99);
  const { median: value, least, most } = spreadOf(pairs.map(([one, other]) => p99(one) / p99(other)));
  bench.figures.add({
    id: "C6",
    name: "ingest p99 / fdatasync p99",
    value,
    unit: "",
    spread: [least, most],
    target: { at: "most", value: 2 },
    detail: {
      ingest_p50_ms: median(pairs.flatMap(([one]) => one)),
      ingest_p99_ms: p99(pairs.flatMap(([one]) => one)),
      fdatasync_p50_ms: median(pairs.flatMap(([, other]) => other)),
      fdatasync_p99_ms: p99(pairs.flatMap(([, other]) => other)),
    },
    note: "one span a request, 4 connections; fdatasync after each 4 KB appended",
  });
  await store.stop();
}
