import { availableParallelism } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Bench } from "./bench/bench.ts";
import type { BenchOptions } from "./bench/bench.ts";
import { BenchRun, positive } from "./bench/bench-run.ts";
import { hasLitellm, hasPortkey } from "./bench/gateways.ts";
import { allRecorded, answersAsDirect, killedProxy } from "./bench/proxy-exactness.ts";
import { proxyFigures } from "./bench/proxy-figures.ts";
import { ProxySides } from "./bench/proxy-sides.ts";

const usage = `bun scripts/bench-proxy.ts [options]

What the proxy costs a call (A1 to A5), beside Portkey's gateway and LiteLLM's proxy, and that its answers and records
are exact (A5, A6). All ways of a call are measured in turn; the figures are ratios, which travel between machines.
Prints one JSON line per figure and a table; ends by itself after at most --limit-minutes, with everything that it
started. The first run fetches the two gateways into .tools/.

  --only A1,A3         these figures
  --pairs 5            rounds over all ways
  --turn-seconds 1.5   length of one turn of one way
  --scale 0.1          less work of everything that has a size
  --smoke              every figure once, quickly, without gateways that are not there yet: does it run?
  --agl FILE           the compiled program to measure; ./agl when absent, "source" for the source
  --json FILE          write the figures there as well
  --limit-minutes 15   stop then, with what is measured until then
`;

const ids = ["A1", "A2", "A3", "A4", "A5", "A6"];

const { values } = parseArgs({
  options: {
    only: { type: "string" },
    pairs: { type: "string", default: "5" },
    "turn-seconds": { type: "string", default: "1.5" },
    scale: { type: "string", default: "1" },
    smoke: { type: "boolean", default: false },
    agl: { type: "string", default: join(import.meta.dir, "..", "agl") },
    json: { type: "string" },
    "limit-minutes": { type: "string", default: "15" },
    help: { type: "boolean", default: false },
  },
});

if (values.help) {
  console.log(usage);
  process.exit(0);
}

const options: BenchOptions = {
  scale: values.smoke ? 0.1 : positive("scale", values.scale),
  pairs: values.smoke ? 1 : positive("pairs", values.pairs),
  turnSeconds: values.smoke ? 0.2 : positive("turn-seconds", values["turn-seconds"]),
  scenarios: undefined,
  agl: values.agl === "source" ? undefined : values.agl,
};
const wanted = chosenIds();
const run = new BenchRun({
  json: values.json,
  limitMinutes: positive("limit-minutes", values["limit-minutes"]),
});

console.log(
  `${availableParallelism()} cores, Bun ${Bun.version}, ${options.pairs} rounds, turns of ${options.turnSeconds} s`,
);
try {
  await measureAll(new Bench({ options, figures: run.figures, children: run.children, folder: run.folder }));
} catch (error) {
  run.failed(error);
}
run.end();

async function measureAll(bench: Bench): Promise<void> {
  const others = wanted.has("A2");
  const sides = await ProxySides.start(bench, {
    bare: true,
    portkey: others && (!values.smoke || hasPortkey()),
    litellm: others && (!values.smoke || hasLitellm()),
  });
  await proxyFigures(bench, sides, wanted);
  if (wanted.has("A5")) await answersAsDirect(bench, sides);
  if (wanted.has("A6")) await allRecorded(bench, sides);
  await sides.stop();
  if (wanted.has("A6")) await killedProxy(bench);
}

function chosenIds(): Set<string> {
  const asked = values.only?.split(",") ?? ids;
  const unknown = asked.find((id) => !ids.includes(id));
  if (unknown === undefined) return new Set(asked);
  console.error(`--only ${unknown}: known figures are ${ids.join(", ")}`);
  process.exit(2);
}
