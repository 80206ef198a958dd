import { rmSync } from "node:fs";
import type { Bench } from "./bench.ts";
import { withCpu } from "./bench.ts";
import { scaled, sleepBoundIdeal } from "./scenarios.ts";
import type { Scenario } from "./scenarios.ts";
import type { Server } from "./servers.ts";

const limitSeconds = 300;

/** B1: how much of what sleeps and requests allow the store leaves to one of the published workloads. */
export async function publishedScenario(bench: Bench, original: Scenario): Promise<void> {
  const { scale, scenarios: chosen } = bench.options;
  if (chosen !== undefined && !chosen.includes(original.name)) return;
  const parseOnly = await bench.parseOnly();
  await measure(bench, scaled(original, scale), parseOnly);
  await parseOnly.stop();
}

async function measure(bench: Bench, scenario: Scenario, parseOnly: Server): Promise<void> {
  const before = await ceiling(bench, scenario, parseOnly);
  const run = await runScenario(bench, scenario);
  const after = await ceiling(bench, scenario, parseOnly);
  const ideal = sleepBoundIdeal(scenario);
  const perRollout = run.requests / run.rollouts;
  const requestBound = (before + after) / 2 / perRollout;
  const rate = run.rollouts / run.seconds;
  const { name } = scenario;
  bench.figures.add({
    id: "B1",
    name: `${name}: efficiency`,
    value: rate / Math.min(ideal, requestBound),
    unit: "",
    target: { at: "least", value: 0.8 },
    detail: {
      rollouts_per_s: rate,
      sleep_bound: ideal,
      request_bound: requestBound,
      requests_per_rollout: perRollout,
      parse_only_requests_per_s: (before + after) / 2,
      spans_per_rollout: run.spans / run.rollouts,
      store_cpu_ms_per_request: run.cpuMs / run.requests,
      runner_process_cpu_ms_per_request: run.runnersCpuMs / run.requests,
      rollouts: run.rollouts,
      seconds: run.seconds,
    },
    note: `${scenario.runners} async runners in 1 process, the algorithm in another, one span a request`,
  });
  const { published } = scenario;
  if (published === undefined) return;
  const publishedShare = published.rate / sleepBoundIdeal({ ...scenario, ...published });
  bench.figures.add({
    id: "B1",
    name: `${name}: rollouts/s / best published`,
    value: rate / ideal / publishedShare,
    unit: "x",
    target: { at: "least", value: 1 },
    detail: { rollouts_per_s: rate, published: published.rate, published_tasks: published.tasks },
    note: "published with 32 or 64 cores and one process per runner; both as shares of what the sleeps allow, as fewer tasks allow less",
  });
}

async function runScenario(bench: Bench, scenario: Scenario) {
  const db = bench.newFile();
  const store = await bench.store(db);
  const [runnersLoad, algorithmLoad] = bench.loads(2) as [
    ReturnType<Bench["load"]>,
    ReturnType<Bench["load"]>,
  ];
  const { port } = store;
  const { runners, maxRounds, sleepSeconds } = scenario;
  const working = runnersLoad.run("agentRunners", { port, runners, maxRounds, sleepSeconds });
  const runnersCpuBefore = runnersLoad.child.cpuMs();
  const { result: algorithm, cpuMs } = await withCpu(store, () =>
    Promise.race([
      algorithmLoad.run("batchAlgorithm", { port, scenario, limitSeconds }),
      working.then(() => Promise.reject(new Error("the runners ended"))),
    ]),
  );
  const runnersCpuMs = runnersLoad.child.cpuMs() - runnersCpuBefore;
  runnersLoad.stopJob();
  const worked = await working;
  await store.stop();
  for (const suffix of ["", "-wal", "-shm"]) rmSync(db + suffix, { force: true });
  const requests = algorithm.requests + worked.requests;
  const { rollouts, seconds } = algorithm;
  return { rollouts, seconds, requests, spans: worked.spans, cpuMs, runnersCpuMs };
}

/** Requests a second of the same kinds and sizes that a server takes which only parses them. */
async function ceiling(bench: Bench, scenario: Scenario, parseOnly: Server): Promise<number> {
  const { requests, seconds } = await bench.load().run("closedLoop", {
    port: parseOnly.port,
    connections: Math.min(scenario.runners, 256),
    seconds: bench.options.turnSeconds,
    traffic: { type: "agent", shape: scenario },
  });
  return requests / seconds;
}
