import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { Bench } from "./bench/bench.ts";
import type { BenchOptions } from "./bench/bench.ts";
import { BenchRun, positive } from "./bench/bench-run.ts";
import { crashFigures } from "./bench/crash-figures.ts";
import { publishedScenario } from "./bench/published-scenarios.ts";
import { pythonComparison } from "./bench/python-comparison.ts";
import { handedOutOnce, queueLength, wakeFigures } from "./bench/queue-figures.ts";
import { scenarios } from "./bench/scenarios.ts";
import { attemptReads, ingestTail, singleSpans, spanBatches } from "./bench/span-figures.ts";

const usage = `bun scripts/bench-store.ts [options]

How fast the store is, in ratios that travel between machines: queue (B1 to B6) and spans (C1 to C6). Prints one JSON
line per figure and a table. About 20 minutes on two quiet cores; ends by itself after at most --limit-minutes, with
everything that it started.

  --only B1,C3         these figures; B1-scenarios and B1-python are the halves of B1
  --scenarios LIST     of B1, for example "large,long queue"
  --scale 0.05         less work of everything that has a size
  --pairs 5            interleaved pairs of each comparison
  --smoke              every figure once, quickly and without agentlightning's store: does it run?
  --agl FILE           measure this compiled program instead of the source
  --json FILE          write the figures there as well
  --limit-minutes 40   stop then, with what is measured until then
`;

const groups: { ids: string[]; run: (bench: Bench, ids: ReadonlySet<string>) => Promise<void> }[] = [
  { ids: ["C1"], run: singleSpans },
  { ids: ["C2", "C3", "C5"], run: spanBatches },
  { ids: ["C6"], run: ingestTail },
  { ids: ["B2"], run: (bench) => wakeFigures(bench, "B2") },
  { ids: ["B3"], run: (bench) => wakeFigures(bench, "B3") },
  { ids: ["B4"], run: queueLength },
  { ids: ["B5"], run: handedOutOnce },
  { ids: ["B6"], run: crashFigures },
  { ids: ["C4"], run: attemptReads },
  { ids: ["B1-python"], run: pythonComparison },
  ...scenarios.map((scenario) => ({
    ids: ["B1-scenarios"],
    run: (bench: Bench) => publishedScenario(bench, scenario),
  })),
];

const { values } = parseArgs({
  options: {
    only: { type: "string" },
    scenarios: { type: "string" },
    scale: { type: "string", default: "1" },
    pairs: { type: "string", default: "5" },
    smoke: { type: "boolean", default: false },
    agl: { type: "string" },
    json: { type: "string" },
    "limit-minutes": { type: "string", default: "40" },
    help: { type: "boolean", default: false },
  },
});

if (values.help) {
  console.log(usage);
  process.exit(0);
}

const options: BenchOptions = {
  scale: values.smoke ? 0.004 : positive("scale", values.scale),
  pairs: values.smoke ? 1 : positive("pairs", values.pairs),
  turnSeconds: values.smoke ? 0.2 : 2,
  scenarios: values.smoke ? ["high concurrency"] : values.scenarios?.split(","),
  agl: values.agl,
};
const wanted = chosenIds();
const benchRun = new BenchRun({
  json: values.json,
  limitMinutes: positive("limit-minutes", values["limit-minutes"]),
});

console.log(
  `${availableParallelism()} cores, Bun ${Bun.version}, scale ${options.scale}, ${options.pairs} pairs, turns of ${options.turnSeconds} s`,
);
const { figures, children, folder } = benchRun;
const bench = new Bench({ options, figures, children, folder });
for (const { ids, run } of groups) {
  if (!ids.some((id) => wanted.has(id))) continue;
  try {
    await run(bench, wanted);
  } catch (error) {
    benchRun.failed(error, ids.join(", "));
    bench.reset();
  }
}
benchRun.end();

function chosenIds(): Set<string> {
  const known = [...new Set(groups.flatMap(({ ids }) => ids))];
  const everything = values.smoke ? known.filter((id) => id !== "B1-python") : known;
  const asked = values.only?.split(",").flatMap((id) => (id === "B1" ? ["B1-python", "B1-scenarios"] : [id]));
  const unknown = asked?.find((id) => !known.includes(id));
  if (unknown === undefined) return new Set(asked ?? everything);
  console.error(`--only ${unknown}: known figures are B1, ${known.join(", ")}`);
  process.exit(2);
}
