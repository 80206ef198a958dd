import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { GpuReadings } from "./gpu-hand-over.ts";
import type { Estimate } from "./interval.ts";

export interface Validation {
  /** Temperature 0. */
  greedy: { mean: number; n: number; low: number; high: number; failed: number };
  /** Temperature 1, top_p 1. */
  sampled: { mean: number; n: number; low: number; high: number; failed: number };
}

export interface VersionReport {
  version: number;
  path: string;
  validation: Validation;
}

export interface IterationReport {
  iteration: number;
  rollouts: number;
  succeeded: number;
  failed: number;
  /** Why rollouts failed. */
  failures: Record<string, number>;
  /** Succeeded rollouts in which the agent made no recorded call. */
  without_calls: number;
  reward: Estimate;
  rows: {
    kept: number;
    dropped: Record<string, number>;
    /** Rows there were to choose from. */
    candidates?: number;
    /** Different answers among these: few of them mean that the samples look alike. */
    distinct_responses?: number;
    /** Rewards before every call, or more rewards than calls. */
    rewards_without_call?: number;
  };
  /** Seconds by phase of the trainer; its imports run beside the rollouts. */
  training?: { steps: number; loss_before: number; loss_after: number; seconds: Record<string, number> };
  /** Mean absolute difference of log-probabilities served after the swap. */
  served?: { method: "swap" | "restart"; to_new: number; to_old: number };
  /** MiB in use at each point of the hand-over, where engine and trainer share a GPU. */
  gpu?: GpuReadings;
  seconds: Record<string, number>;
  updated: boolean;
  /** Why there was no update. */
  reason?: string;
}

export interface Report {
  run: string;
  seed: number;
  model: string;
  profile: string;
  selection: { rule: string; fraction: number };
  versions: VersionReport[];
  iterations: IterationReport[];
  /** Seconds of what belongs to no iteration: setup, engine start, the first evaluation. */
  seconds: Record<string, number>;
  /** The version with the best sampled validation reward; the later one of equals. */
  best: number;
}

/** Writes report.json and report.md; a reader never sees half a file. */
export function writeReport(folder: string, report: Report): void {
  writeWhole(join(folder, "report.json"), JSON.stringify(report, null, 2) + "\n");
  writeWhole(join(folder, "report.md"), reportMarkdown(report));
}

export function bestVersion(versions: VersionReport[]): VersionReport | undefined {
  return versions.reduce<VersionReport | undefined>(
    (best, version) =>
      best === undefined || version.validation.sampled.mean >= best.validation.sampled.mean ? version : best,
    undefined,
  );
}

export function reportMarkdown(report: Report): string {
  return [
    `# Run ${report.run}`,
    "",
    `Model ${report.model}, profile ${report.profile}, seed ${report.seed}, selection ${report.selection.rule} ` +
      `(fraction ${report.selection.fraction}).`,
    "",
    "## Validation reward",
    "",
    ...versionTable(report.versions),
    "",
    "## Iterations",
    "",
    ...iterationTable(report.iterations),
    "",
    "## Seconds",
    "",
    ...secondsTable(report),
    "",
  ].join("\n");
}

/** The table of versions, as Markdown that also reads well in a terminal. */
export function versionTable(versions: VersionReport[]): string[] {
  return table(
    ["version", "greedy", "sampled (T 1.0)", "95 % interval", "tasks"],
    versions.map(({ version, validation: { greedy, sampled } }) => [
      `version_${version}`,
      greedy.mean.toFixed(3),
      sampled.mean.toFixed(3),
      `${sampled.low.toFixed(3)} – ${sampled.high.toFixed(3)}`,
      String(sampled.n),
    ]),
  );
}

export function iterationTable(iterations: IterationReport[]): string[] {
  return table(
    ["iteration", "rollouts", "failed", "reward", "rows kept", "rows dropped", "result"],
    iterations.map((iteration) => [
      String(iteration.iteration),
      iteration.without_calls === 0
        ? String(iteration.rollouts)
        : `${iteration.rollouts} (${iteration.without_calls} without a call)`,
      iteration.failed === 0 ? "0" : `${iteration.failed} (${countsText(iteration.failures)})`,
      iteration.reward.n === 0 ? "–" : iteration.reward.mean.toFixed(3),
      rowsText(iteration.rows),
      droppedText(iteration.rows),
      iteration.updated ? `version_${iteration.iteration}` : `no update: ${iteration.reason ?? "unknown"}`,
    ]),
  );
}

export function countsText(counts: Record<string, number>): string {
  const parts = Object.entries(counts).map(([reason, count]) => `${count} ${reason}`);
  return parts.length === 0 ? "none" : parts.join(", ");
}

function rowsText({ kept, candidates, distinct_responses: distinct }: IterationReport["rows"]): string {
  if (candidates === undefined || distinct === undefined) return String(kept);
  return `${kept} of ${candidates} (${distinct} different)`;
}

function droppedText({ dropped, rewards_without_call: loose = 0 }: IterationReport["rows"]): string {
  const calls = countsText(dropped);
  return loose === 0 ? calls : `${calls}; ${loose} rewards without a call`;
}

function secondsTable(report: Report): string[] {
  const rows = [
    ["before", phases(report.seconds)],
    ...report.iterations.map(({ iteration, seconds }) => [`iteration ${iteration}`, phases(seconds)]),
  ];
  return table(["part", "phases"], rows);
}

function phases(seconds: Record<string, number>): string {
  return Object.entries(seconds)
    .map(([phase, value]) => `${phase} ${value.toFixed(1)}`)
    .join(", ");
}

function table(head: string[], rows: string[][]): string[] {
  const widths = head.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => (row[column] ?? "").length)),
  );
  const line = (cells: string[]) =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`;
  return [line(head), `|${widths.map((width) => "-".repeat(width + 2)).join("|")}|`, ...rows.map(line)];
}

function writeWhole(file: string, text: string): void {
  writeFileSync(`${file}.tmp`, text);
  renameSync(`${file}.tmp`, file);
}
