import { describe, expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Report } from "../../src/algorithm/report.ts";
import { connectStore } from "../../src/client/http-store.ts";
import { freePort } from "../../src/engine/port-owner.ts";
import { openStore } from "../../src/store/sqlite-store.ts";
import { fakePython, type FakeEngineScript } from "../helpers/fake-engine.ts";
import { until } from "../helpers/processes.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";
import { type AglProcess, startAgl } from "../real/agl-process.ts";

/** `agl allinone` whose parts die, hang or are told to stop, with an engine that only pretends. */
const folder = temporaryFolder();
const program = [process.execPath, join(import.meta.dir, "..", "..", "src", "main.ts")];
const limitMs = 30_000;
let number = 0;

const quick = "export default { name: 'quick', run: (task) => task.target };";
const slow =
  "export default { name: 'slow', run: (task, { signal }) => new Promise((_, no) => signal.addEventListener('abort', () => no(signal.reason))) };";
const brief = "export default { name: 'brief', run: () => Bun.sleep(400).then(() => 1) };";
const toolless = "export default { name: 'x', tools: { t: { command: 'cat' } }, run: () => 1 };";

interface Start {
  agent?: string;
  engine?: FakeEngineScript;
  tasks?: number;
  args?: string[];
  environment?: Record<string, string>;
  program?: string[];
}

interface Started {
  agl: AglProcess;
  cwd: string;
}

async function start(given: Start = {}): Promise<Started> {
  const cwd = join(folder, `place-${++number}`);
  mkdirSync(cwd);
  return startIn(cwd, given);
}

async function startIn(cwd: string, given: Start): Promise<Started> {
  const { agent = quick, engine = {}, tasks = 8, args = [], environment = {} } = given;
  const lines = Array.from({ length: tasks }, (_, index) => `{"input": "${index}", "target": ${index % 2}}`);
  writeFileSync(join(cwd, "tasks.jsonl"), lines.join("\n"));
  writeFileSync(join(cwd, "agent.ts"), agent);
  const agl = startAgl(
    [
      ["allinone", "--iterations", "1", "--agent", "agent.ts", "--runners-count", "2"],
      ["--tasks-train", "tasks.jsonl", "--tasks-validation", "tasks.jsonl"],
      ["--store-port", String(freePort()), "--proxy-port", String(freePort())],
      args,
    ].flat(),
    cwd,
    {
      AGL_CACHE: join(folder, "cache"),
      AGL_PYTHON: await fakePython(cwd, "python", engine),
      ...environment,
    },
    given.program ?? program,
  );
  return { agl, cwd };
}

async function leavesNothing(agl: AglProcess): Promise<void> {
  await until("no process of the run lives", () => agl.processes().length === 0, 5_000);
}

/** Ends as told, in a line or two, with nothing left. */
async function endsWith(agl: AglProcess, code: number): Promise<string> {
  expect({ code: await agl.exited, said: agl.errors() }).toMatchObject({ code });
  await leavesNothing(agl);
  expect(agl.errors()).not.toMatch(/^\s+at |internal error/m);
  expect(agl.errors().trim().split("\n").length).toBeLessThanOrEqual(2);
  return agl.errors();
}

function runFolder(cwd: string, index = 0): string {
  return join(cwd, "runs", readdirSync(join(cwd, "runs")).toSorted()[index] as string);
}

function reportOf(cwd: string): Report {
  return JSON.parse(readFileSync(join(runFolder(cwd), "report.json"), "utf8")) as Report;
}

async function attemptsOf(cwd: string): Promise<{ status: string; reason: unknown }[]> {
  const store = openStore({ path: join(runFolder(cwd), "store.db") });
  try {
    const { items } = await store.queryRollouts({ limit: -1 });
    const attempts = await Promise.all(items.map(({ rollout_id }) => store.getLatestAttempt(rollout_id)));
    return attempts
      .filter((attempt) => attempt !== null)
      .map(({ status, metadata }) => ({ status, reason: metadata?.["reason"] }));
  } finally {
    await store.close();
  }
}

/** Waits until an attempt runs, by asking the run's own store. */
async function attemptRuns(agl: AglProcess): Promise<void> {
  await agl.waitForLine(/^engine: ready/, limitMs);
  const line = await agl.waitForLine(/^store: /, limitMs);
  const store = connectStore(line.slice("store: ".length));
  const running = { status_in: ["preparing" as const] };
  await until("an attempt runs", async () => (await store.queryRollouts(running)).total > 0);
  await store.close();
}

/** The process of the run whose command line holds all of the words and that is no guard. */
function pidOf(agl: AglProcess, ...words: string[]): number | undefined {
  return agl.processes().find((pid) => {
    const command = commandOf(pid);
    return words.every((word) => command.includes(word)) && !command.includes("__guard");
  });
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}

function kill(agl: AglProcess, ...words: string[]): void {
  const pid = pidOf(agl, ...words);
  if (pid === undefined) throw new Error(`no process with ${words.join(" ")}`);
  process.kill(pid, "SIGKILL");
}

describe("a signal ends it in a line or two, leaving no process", () => {
  const phases: [string, Start, RegExp][] = [
    ["while the engine starts", { engine: { silent: true } }, /^runners: ready/],
    ["while a tool server does not start", { agent: toolless }, /^engine: ready/],
    ["during rollouts", { agent: slow }, /^engine: ready/],
  ];
  test.each(phases)(
    "Ctrl-C %s",
    async (_, given, line) => {
      const { agl } = await start(given);
      await agl.waitForLine(line, limitMs);
      agl.signal("SIGINT");
      expect(await endsWith(agl, 130)).toBe("error: stopped by SIGINT\n");
    },
    limitMs,
  );

  test(
    "Ctrl-C while the Python environment is made",
    async () => {
      const cwd = join(folder, `place-${++number}`);
      mkdirSync(cwd);
      const uv = join(cwd, "uv");
      writeFileSync(uv, "#!/bin/sh\nexec sleep 600\n", { mode: 0o755 });
      // With it, there would be no environment to make.
      const environment = { AGL_PYTHON: undefined };
      const args = ["setup", "--uv", "./uv", "--cache", join(cwd, "cache")];
      const agl = startAgl(args, cwd, environment, program);
      await until("uv is at work", () => pidOf(agl, "sleep") !== undefined);
      agl.signal("SIGINT");
      expect(await endsWith(agl, 130)).toBe("error: stopped by SIGINT\n");
    },
    limitMs,
  );

  test.each([
    ["SIGTERM", 143],
    ["SIGHUP", 129],
  ] as const)(
    "%s",
    async (signal, code) => {
      const { agl, cwd } = await start({ agent: slow });
      await attemptRuns(agl);
      agl.signal(signal);
      expect(await endsWith(agl, code)).toBe(`error: stopped by ${signal}\n`);
      const attempts = await attemptsOf(cwd);
      expect(attempts.length).toBeGreaterThan(0);
      expect(attempts.filter(({ reason }) => reason !== "cancelled")).toEqual([]);
    },
    limitMs,
  );

  test(
    "the second Ctrl-C does not wait",
    async () => {
      const { agl } = await start({ engine: { silent: true, stubborn: true } });
      await agl.waitForLine(/^runners: ready/, limitMs);
      agl.signal("SIGINT");
      await agl.waitForLine(/once more/, limitMs);
      agl.signal("SIGINT");
      expect(await agl.exited).toBe(130);
      await leavesNothing(agl);
    },
    limitMs,
  );
});

describe("runners that die", () => {
  test(
    "are started again; what they worked on has failed, and the run goes on",
    async () => {
      const { agl, cwd } = await start({ agent: brief, tasks: 24 });
      await attemptRuns(agl);
      kill(agl, "__runners");
      const line = await agl.waitForLine(/starting again/, limitMs);
      expect(line).toMatch(
        /^the runners ended \(signal SIGKILL\).*; \d+ running attempts failed; .*\(1 of 3\)$/,
      );
      expect(await agl.exited).toBe(0);
      await leavesNothing(agl);
      const died = (await attemptsOf(cwd)).filter(({ reason }) => reason === "runner_died");
      expect(died.length).toBeGreaterThan(0);
      expect(died.every(({ status }) => status === "failed")).toBe(true);
      expect(reportOf(cwd).versions).toHaveLength(1);
    },
    limitMs,
  );
});

test(
  "an engine that dies during rollouts ends the run with the log's path, and no attempt is left running",
  async () => {
    const { agl, cwd } = await start({ agent: slow });
    await attemptRuns(agl);
    kill(agl, "fake-engine");
    const said = await endsWith(agl, 1);
    expect(said).toMatch(
      /^error: vLLM ended while serving \(signal SIGKILL\): most likely for want of memory\n/,
    );
    expect(said).toContain(join(runFolder(cwd), "logs", "vllm.log"));
    const attempts = await attemptsOf(cwd);
    expect(attempts.filter(({ status }) => status !== "failed")).toEqual([]);
  },
  limitMs,
);

test(
  "an engine that dies at its start ends the run with the true cause",
  async () => {
    const prints = [
      "INFO x",
      "ValueError: the model has 3 heads",
      "RuntimeError: Engine core initialization failed.",
    ];
    const { agl, cwd } = await start({ engine: { prints, exits: 1 } });
    expect(await endsWith(agl, 1)).toBe(
      "error: vLLM ended at its start (exit code 1): ValueError: the model has 3 heads\n" +
        `  see its log: ${join(runFolder(cwd), "logs", "vllm.log")}\n`,
    );
  },
  limitMs,
);

// O18
test(
  "rollouts that succeed without a recorded call are counted, and a round of only such ones says why it learns nothing",
  async () => {
    const { agl, cwd } = await start();
    await endsWith(agl, 0);
    const [iteration] = reportOf(cwd).iterations;
    expect(iteration).toMatchObject({ succeeded: 8, without_calls: 8, updated: false });
    expect(iteration?.reason).toStartWith("none of the 8 succeeded rollouts made a recorded call");
    const line = agl.lines.find((text) => text.startsWith("iteration 1: "));
    expect(line).toContain("no update (none of the 8 succeeded rollouts made a recorded call");
    expect(line).toContain("warning: 8 succeeded rollouts made no recorded call");
  },
  limitMs,
);

// O36
test(
  "nobody reading its output does not end it",
  async () => {
    const piped = ["sh", "-c", '("$@"; echo $? > code) | head -1', "sh", ...program];
    const { agl, cwd } = await start({ program: piped });
    expect(await agl.exited).toBe(0);
    expect(agl.lines).toHaveLength(1);
    expect(readFileSync(join(cwd, "code"), "utf8")).toBe("0\n");
    expect(agl.errors()).toBe("");
    expect(reportOf(cwd).versions).toHaveLength(1);
    await leavesNothing(agl);
  },
  limitMs,
);

test(
  "two runs in one folder, at once, lie beside each other",
  async () => {
    const first = await start({ agent: brief, tasks: 16 });
    const second = await startIn(first.cwd, { agent: brief, tasks: 16 });
    expect(await Promise.all([first.agl.exited, second.agl.exited])).toEqual([0, 0]);
    expect(readdirSync(join(first.cwd, "runs"))).toHaveLength(2);
    for (const index of [0, 1]) {
      const path = runFolder(first.cwd, index);
      const report = JSON.parse(readFileSync(join(path, "report.json"), "utf8")) as Report;
      expect(report.iterations[0]).toMatchObject({ rollouts: 16, failed: 0 });
    }
    await leavesNothing(second.agl);
  },
  limitMs,
);
