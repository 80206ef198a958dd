import type { Algorithm, AlgorithmContext } from "./algorithm.ts";
import { evaluate } from "./evaluation.ts";
import { bestVersion, type Report, writeReport } from "./report.ts";
import { playRound } from "./round.ts";
import { Stopwatch } from "./stopwatch.ts";

/**
 * The built-in algorithm: evaluate the base, then each iteration rolls out, scores, selects, trains, swaps and evaluates.
 * A round with nothing to learn from makes no version; the next one goes on with the current checkpoint.
 */
export const improve = (async (context: AlgorithmContext): Promise<Report> => {
  const report = emptyReport(context);
  const save = () => writeReport(context.folder.path, report);
  const before = new Stopwatch(report.seconds);
  report.versions.push(await before.time("evaluate", () => evaluate(context, 0)));
  save();
  // Without new weights a second round would only repeat the first.
  const iterations = context.engine.canTrain ? context.settings.iterations : 1;
  for (let iteration = 1; iteration <= iterations; iteration++) {
    const round = await playRound(context, iteration);
    report.iterations.push(round);
    if (round.updated) {
      const clock = new Stopwatch(round.seconds);
      report.versions.push(await clock.time("evaluate", () => evaluate(context, iteration)));
    }
    report.best = bestVersion(report.versions)?.version ?? 0;
    context.onIteration(round);
    save();
  }
  return report;
}) satisfies Algorithm;

function emptyReport({ folder, settings }: AlgorithmContext): Report {
  const { seed, modelName, profile, rule, fraction } = settings;
  return {
    run: folder.name,
    seed,
    model: modelName,
    profile,
    selection: { rule, fraction },
    versions: [],
    iterations: [],
    seconds: {},
    best: 0,
  };
}
