import { afterAll, describe, expect, test } from "bun:test";
import { copyFileSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Report } from "../../src/algorithm/report.ts";
import { freePort } from "../../src/engine/port-owner.ts";
import { openStore } from "../../src/store/sqlite-store.ts";
import { until } from "../helpers/processes.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";
import { type AglProcess, startAgl } from "./agl-process.ts";

/** The parts one by one, from the compiled binary in empty folders, with real vLLM, TRL and calculator. */
const folder = temporaryFolder();
const minute = 60_000;
const running: AglProcess[] = [];
const small = ["--iterations", "1", "--tasks-train-limit", "64", "--tasks-validation-limit", "32"];

function start(
  name: string,
  args: string[],
  environment: Record<string, string | undefined> = {},
): AglProcess {
  const cwd = join(folder, name);
  mkdirSync(cwd, { recursive: true });
  const agl = startAgl(args, cwd, environment);
  running.push(agl);
  return agl;
}

/** Of the newest run in a folder. */
function runOf(name: string): { path: string; report: Report } {
  const runs = join(folder, name, "runs");
  const path = join(runs, readdirSync(runs).toSorted().at(-1) as string);
  return { path, report: JSON.parse(readFileSync(join(path, "report.json"), "utf8")) as Report };
}

function expectBetter(report: Report): void {
  const [before, after] = report.versions.map(({ validation }) => validation.sampled.mean);
  expect(report.iterations[0]?.updated).toBe(true);
  expect((after ?? 0) - (before ?? 1)).toBeGreaterThan(0.15);
}

async function succeeds(agl: AglProcess): Promise<void> {
  const code = await agl.exited;
  expect({ code, errors: agl.errors(), lines: code === 0 ? [] : agl.lines }).toEqual({
    code: 0,
    errors: "",
    lines: [],
  });
}

afterAll(async () => {
  for (const agl of running) agl.signal("SIGTERM");
  await Promise.all(running.map((agl) => agl.exited));
});

describe("three terminals", () => {
  const storePort = freePort();
  const store = ["--store-url", `http://127.0.0.1:${storePort}`];
  // Nothing of Bun, and no packages: what a user's machine has.
  const bare = {
    PATH: (process.env["PATH"] ?? "")
      .split(":")
      .filter((part) => !part.includes("bun"))
      .join(":"),
  };

  // O34
  test(
    "in any start order give what the all-in-one run gives",
    async () => {
      const runners = start("terminal-2", ["runners", "-n", "4", ...store], bare);
      const algorithm = start(
        "terminal-3",
        ["algo", ...store, "--proxy-port", String(freePort()), ...small],
        bare,
      );
      await runners.waitForLine(/^waiting: no store answers/, minute);
      await algorithm.waitForLine(/^waiting: no store answers/, minute);
      start("terminal-1", ["store", "--store-port", String(storePort)], bare);
      await succeeds(algorithm);
      expectBetter(runOf("terminal-3").report);
      expect(runners.lines.some((line) => /succeeded, reward 1/.test(line))).toBe(true);
    },
    6 * minute,
  );

  test(
    "an algorithm of one's own works with the same parts, and a dry run asks its engine from outside",
    async () => {
      const file = join(folder, "my-algorithm.ts");
      copyFileSync(join(import.meta.dir, "my-algorithm.ts"), file);
      const enginePort = freePort();
      const algorithm = start("own-algorithm", [
        "algo",
        file,
        ...store,
        "--proxy-port",
        String(freePort()),
        "--engine-port",
        String(enginePort),
        ...small,
      ]);
      await algorithm.waitForLine(/^engine: ready/, 5 * minute);
      const dry = start("dry-run", [
        "dev",
        "--engine-url",
        `http://127.0.0.1:${enginePort}/v1`,
        "--tasks-dev",
        "2",
      ]);
      await succeeds(dry);
      expect(dry.lines.filter((line) => line.startsWith("rollout ro-"))).toHaveLength(2);
      expect(dry.lines.join("\n")).toMatch(/row of \d+ ids, \d+ of them learned; exact/);
      expect(dry.lines).toContain("nothing was trained");
      await succeeds(algorithm);
      expect(algorithm.lines.join("\n")).toMatch(/my algorithm: trained on \d+ rows, now serving mine_1/);
    },
    6 * minute,
  );
});

test(
  "two all-in-one runs at once in two folders both finish, and nothing is mixed up",
  async () => {
    const tiny = ["--iterations", "1", "--tasks-train-limit", "32", "--tasks-validation-limit", "8"];
    const names = ["twin-1", "twin-2"];
    const twins = names.map((name, seed) => start(name, ["allinone", "--seed", String(seed), ...tiny]));
    await Promise.all(twins.map(succeeds));
    for (const [seed, name] of names.entries()) {
      const { path, report } = runOf(name);
      expect(report.seed).toBe(seed);
      const store = openStore({ path: join(path, "store.db") });
      try {
        const { items, total } = await store.queryRollouts({});
        expect(total).toBe(8 * 2 * report.versions.length + 32);
        expect(items.every(({ status }) => status === "succeeded")).toBe(true);
      } finally {
        await store.close();
      }
    }
  },
  8 * minute,
);

test(
  "without a proxy the tracer records the ids, and the model gets better as well",
  async () => {
    const agl = start("no-proxy", [
      "allinone",
      "--proxy-off",
      "--runners-tracer",
      "openai",
      "--adapter",
      "tracer",
      "--engine-between",
      "restart",
      ...small,
    ]);
    await succeeds(agl);
    const { report } = runOf("no-proxy");
    expectBetter(report);
    expect(report.iterations[0]?.served?.method).toBe("restart");
  },
  8 * minute,
);

test("the parts leave no process behind", async () => {
  for (const agl of running) agl.signal("SIGTERM");
  await Promise.all(running.map((agl) => agl.exited));
  for (const agl of running) await until("no process lives", () => agl.processes().length === 0, 10_000);
});
