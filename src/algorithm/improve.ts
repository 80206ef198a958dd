import type { Improvement } from "./improvement.ts";
import { evaluate } from "./evaluation.ts";
import { bestVersion, type Report, writeReport } from "./report.ts";
import { playRound } from "./round.ts";
import { Stopwatch } from "./stopwatch.ts";
import { serveThroughProxy } from "./weights.ts";

/**
 * The loop: evaluate the base, then each iteration rolls out, scores, selects, trains, swaps and evaluates. A round
 * with nothing to learn from makes no version; the next one goes on with the current checkpoint.
 */
export async function improve(run: Improvement, report: Report): Promise<Report> {
  let current = run.base;
  const save = () => writeReport(run.folder.path, report);
  await serveThroughProxy(run, current);
  const before = new Stopwatch();
  report.versions.push(await before.time("evaluate", () => evaluate(run, 0, current)));
  Object.assign(report.seconds, before.seconds);
  save();
  for (let iteration = 1; iteration <= run.settings.iterations; iteration++) {
    const outcome = await playRound(run, iteration, current);
    report.iterations.push(outcome.report);
    if (outcome.next !== undefined) {
      current = outcome.next;
      const clock = new Stopwatch(outcome.report.seconds);
      report.versions.push(await clock.time("evaluate", () => evaluate(run, iteration, current)));
    }
    report.best = bestVersion(report.versions)?.version ?? 0;
    run.onIteration(outcome.report);
    save();
  }
  return report;
}
