import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { bestVersion, type Report, versionTable, writeReport } from "../../src/algorithm/report.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const folder = temporaryFolder();

function version(number: number, sampled: number): Report["versions"][number] {
  const estimate = (mean: number) => ({ mean, n: 256, low: mean - 0.05, high: mean + 0.05, failed: 0 });
  return {
    version: number,
    path: `models/version_${number}`,
    validation: { greedy: estimate(0.5), sampled: estimate(sampled) },
  };
}

const report: Report = {
  run: "2026-01-01-1",
  seed: 7,
  model: "small",
  profile: "cpu",
  selection: { rule: "above-mean", fraction: 0.5 },
  versions: [version(0, 0.4), version(1, 0.9), version(2, 0.9)],
  iterations: [
    {
      iteration: 1,
      rollouts: 256,
      succeeded: 250,
      failed: 6,
      failures: { timeout: 6 },
      without_calls: 3,
      reward: { mean: 0.4, n: 250, low: 0.35, high: 0.45 },
      rows: {
        kept: 200,
        dropped: { "below the mean": 300, "failed rollout": 12 },
        candidates: 500,
        distinct_responses: 41,
        rewards_without_call: 2,
      },
      seconds: { rollouts: 60.5, train: 68 },
      updated: false,
      reason: "every reward is equal",
    },
  ],
  seconds: { setup: 0.2 },
  best: 2,
};

test("the best version is the one with the best sampled reward, the later of equals", () => {
  expect(bestVersion(report.versions)?.version).toBe(2);
  expect(bestVersion([version(0, 0.4), version(1, 0.3)])?.version).toBe(0);
  expect(bestVersion([])).toBeUndefined();
});

test("report.json holds the report as it is, report.md tells it to a person", () => {
  writeReport(folder, report);
  expect(JSON.parse(readFileSync(join(folder, "report.json"), "utf8"))).toEqual(
    JSON.parse(JSON.stringify(report)),
  );
  const markdown = readFileSync(join(folder, "report.md"), "utf8");
  expect(markdown).toContain("| version_1 | 0.500");
  expect(markdown).toContain("| 256 (3 without a call) ");
  expect(markdown).toContain("| 200 of 500 (41 different) ");
  expect(markdown).toContain("300 below the mean, 12 failed rollout; 2 rewards without a call");
  expect(markdown).toContain("| 6 (6 timeout)");
  expect(markdown).toContain("no update: every reward is equal");
  expect(markdown).toContain("rollouts 60.5, train 68.0");
});

test("table columns line up", () => {
  const lines = versionTable(report.versions);
  expect(new Set(lines.map((line) => line.length)).size).toBe(1);
});
