import { withCpu } from "./bench.ts";
import type { Bench } from "./bench.ts";
import { microWorkloads } from "./micro-workloads.ts";
import type { MicroName } from "./micro-workloads.ts";
import { interleave } from "./pairs.ts";
import type { Server } from "./servers.ts";
import { median, spreadOf, sum } from "./statistics.ts";

/** Of the published counts: agentlightning's store needs minutes for all of them. */
const share = 1 / 16;

/** B1, direct: the published micro workloads, the same work on our store and on agentlightning's own, in turn. */
export async function pythonComparison(bench: Bench): Promise<void> {
  const [ours, theirs] = [await bench.store(), await bench.pythonStore()];
  for (const name of Object.keys(microWorkloads) as MicroName[]) await compare(bench, name, ours, theirs);
  await Promise.all([ours.stop(), theirs.stop()]);
}

async function compare(bench: Bench, name: MicroName, ours: Server, theirs: Server): Promise<void> {
  const tasks = bench.count(microWorkloads[name].tasks * share, 64);
  const turn = (server: Server) => async () => {
    const job = { port: server.port, name, tasks };
    const { result, cpuMs } = await withCpu(server, () => bench.load().run("microWorkload", job));
    return { ...result, cpuMs };
  };
  const pairs = await interleave(bench.options.pairs, turn(ours), turn(theirs));
  const ratios = pairs.map(([one, other]) => one.requests / one.seconds / (other.requests / other.seconds));
  const { median: value, least, most } = spreadOf(ratios);
  const sides = [0, 1].map((side) => pairs.map((pair) => pair[side]!));
  const [rate, theirRate] = sides.map((turns) =>
    median(turns.map(({ requests, seconds }) => requests / seconds)),
  );
  const [cpu, theirCpu] = sides.map(
    (turns) => sum(turns.map(({ cpuMs }) => cpuMs)) / sum(turns.map(({ requests }) => requests)),
  );
  bench.figures.add({
    id: "B1",
    name: `${name}: requests/s / agentlightning 0.3.0`,
    value,
    unit: "x",
    spread: [least, most],
    target: { at: "least", value: 5 },
    detail: {
      requests_per_s: rate!,
      their_requests_per_s: theirRate!,
      cpu_ms_per_request: cpu!,
      their_cpu_ms_per_request: theirCpu!,
      tasks,
      pairs: pairs.length,
    },
    note: `${Math.min(microWorkloads[name].concurrency, tasks)} connections from 1 process; theirs keeps everything in memory only`,
  });
}
