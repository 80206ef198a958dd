import { join } from "node:path";
import {
  bestVersion,
  countsText,
  type IterationReport,
  iterationTable,
  type Report,
  type VersionReport,
  versionTable,
} from "../algorithm/report.ts";
import { AglError } from "../errors.ts";
import type { RunFolder } from "../run-folder.ts";

/** `version_1: greedy 0.980, sampled 0.934 (95 % 0.897 – 0.958), 256 tasks`. */
export function describeVersion({ version, validation: { greedy, sampled } }: VersionReport): string {
  return (
    `version_${version}: greedy ${greedy.mean.toFixed(3)}, sampled ${sampled.mean.toFixed(3)} ` +
    `(95 % ${sampled.low.toFixed(3)} – ${sampled.high.toFixed(3)}), ${sampled.n} tasks`
  );
}

export function describeIteration(report: IterationReport): string {
  const rows = `rows kept ${report.rows.kept}, dropped: ${countsText(report.rows.dropped)}`;
  const result = report.updated
    ? `version_${report.iteration} made`
    : `no update (${report.reason ?? "unknown"})`;
  const bypassed = report.without_calls;
  const warning = bypassed === 0 ? "" : `; warning: ${bypassed} succeeded rollouts made no recorded call`;
  const seconds = Object.entries(report.seconds).map(([phase, value]) => `${phase} ${value.toFixed(1)} s`);
  return `iteration ${report.iteration}: ${rows}; ${result}${warning}; ${seconds.join(", ")}`;
}

/** The tables, then the two lines that name what was made. */
export function printResult(report: Report, folder: RunFolder, say: (line: string) => void): void {
  const best = bestVersion(report.versions);
  if (best === undefined) throw new AglError("agent", "the run ended without an evaluated version");
  for (const line of ["", ...versionTable(report.versions), "", ...iterationTable(report.iterations), ""])
    say(line);
  say(`checkpoint: ${best.path}`);
  say(`report: ${join(folder.path, "report.md")}`);
}
