import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import type { Report } from "../../src/algorithm/report.ts";
import { adapterProblem } from "../../src/engine/lora-adapter.ts";
import { openStore, type SqliteStore } from "../../src/store/sqlite-store.ts";
import { until } from "../helpers/processes.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";
import { type AglProcess, startAgl } from "./agl-process.ts";
import { type WireCall, wireCalls } from "./byte-log.ts";

/**
 * The compiled binary in an empty folder, with real vLLM, TRL and calculator, at reduced size: one iteration on 96 tasks.
 * A program between proxy and engine writes down every byte.
 */
const folder = temporaryFolder();
const tapLog = join(folder, "bytes.jsonl");
const minute = 60_000;

interface Row {
  input_ids: number[];
  attention_mask: number[];
  labels: number[];
  reward: number;
}

let agl: AglProcess;
let exitCode: number;
let run: string;
let report: Report;
let rows: Row[];
let wire: WireCall[];
let store: SqliteStore;

beforeAll(async () => {
  agl = startAgl(
    [
      "allinone",
      ["--iterations", "1", "--tasks-train-limit", "96", "--tasks-validation-limit", "64"],
      ["--agent", join(import.meta.dir, "alternating-agent.ts"), "--trainer-keep-adapter"],
    ].flat(),
    folder,
  );
  await until(
    "a run folder",
    () => existsSync(join(folder, "runs")) && readdirSync(join(folder, "runs")).length > 0,
    minute,
  );
  run = join(folder, "runs", readdirSync(join(folder, "runs"))[0] as string);
  const tap = Bun.spawn(
    [process.execPath, join(import.meta.dir, "socket-tap.ts"), join(run, "engine", "engine.sock"), tapLog],
    { stdout: "ignore", stderr: "inherit" },
  );
  exitCode = await agl.exited;
  tap.kill();
  await tap.exited;
  report = JSON.parse(readFileSync(join(run, "report.json"), "utf8")) as Report;
  rows = readFileSync(join(run, "work", "version_1", "rows.jsonl"), "utf8")
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Row);
  wire = wireCalls(tapLog);
  store = openStore({ path: join(run, "store.db") });
}, 15 * minute);

afterAll(async () => {
  await store?.close();
});

describe("one command in an empty folder", () => {
  test("ends well, and names the checkpoint and the report last", () => {
    expect({ exitCode, errors: agl.errors() }).toEqual({ exitCode: 0, errors: "" });
    const [checkpoint, reportLine] = agl.lines.slice(-2);
    expect(checkpoint).toBe(`checkpoint: ${join(run, "models", "version_1")}`);
    expect(reportLine).toBe(`report: ${join(run, "report.md")}`);
  });

  test("makes a model that is better at tasks it was not trained on", () => {
    const [before, after] = report.versions.map(({ validation }) => validation);
    expect(report.versions.map(({ version }) => version)).toEqual([0, 1]);
    expect((after?.sampled.mean ?? 0) - (before?.sampled.mean ?? 1)).toBeGreaterThan(0.15);
    expect((after?.greedy.mean ?? 0) - (before?.greedy.mean ?? 1)).toBeGreaterThan(0.1);
    expect(after?.sampled.n).toBe(64);
  });

  test("accounts for every rollout and every recorded call", () => {
    const [iteration] = report.iterations;
    expect(iteration).toMatchObject({ iteration: 1, rollouts: 96, updated: true });
    expect((iteration?.succeeded ?? 0) + (iteration?.failed ?? 0)).toBe(96);
    expect(iteration?.rows.kept).toBe(rows.length);
    for (const phase of ["rollouts", "rows", "train", "swap", "evaluate"]) {
      expect(iteration?.seconds[phase]).toBeGreaterThan(0);
    }
  });

  test("leaves no process and no socket behind", async () => {
    await until("no process of the run lives", () => agl.processes().length === 0, 5_000);
    expect(existsSync(join(run, "engine", "engine.sock"))).toBe(false);
  });
});

describe("the training rows", () => {
  test("hold, id for id, what went over the socket between proxy and engine, streamed and plain", () => {
    const bySequence = new Map(wire.map((call) => [[...call.prompt, ...call.response].join(" "), call]));
    const calls = rows.map((row) => bySequence.get(row.input_ids.join(" ")));
    expect(calls.filter((call) => call === undefined)).toEqual([]);
    expect(calls.filter((call) => call?.streamed === true).length).toBeGreaterThan(0);
    expect(calls.filter((call) => call?.streamed === false).length).toBeGreaterThan(0);
    for (const [index, row] of rows.entries()) {
      const call = calls[index] as WireCall;
      expect(row.labels).toEqual([...call.prompt.map(() => -100), ...call.response]);
      expect(row.attention_mask).toEqual(row.input_ids.map(() => 1));
    }
  });

  test("are rewarded above the round's mean", () => {
    const mean = report.iterations[0]?.reward.mean ?? Number.NaN;
    expect(rows.every(({ reward }) => reward > mean)).toBe(true);
  });
});

describe("the new checkpoint", () => {
  const version = () => join(run, "models", "version_1");

  test("keeps the base's tokenizer and chat template byte for byte and has other weights", () => {
    const base = join(run, "models", "version_0");
    for (const name of ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "config.json"]) {
      expect(readFileSync(join(version(), name)).equals(readFileSync(join(base, name)))).toBe(true);
    }
    const weights = "model.safetensors";
    expect(readFileSync(join(version(), weights)).equals(readFileSync(join(base, weights)))).toBe(false);
  });

  test("holds its LoRA adapter by itself, for the base it was trained on", () => {
    const base = join(run, "models", "version_0");
    expect(adapterProblem(join(version(), "adapter"), base)).toBeUndefined();
    const { files } = JSON.parse(readFileSync(join(version(), "STABLE"), "utf8"));
    expect(files["adapter/adapter_model.safetensors"]).toBeGreaterThan(0);
  });

  test("is marked stable, and nothing half made lies beside it", () => {
    expect(existsSync(join(version(), "STABLE"))).toBe(true);
    expect(readdirSync(join(run, "models")).toSorted()).toEqual(["version_0", "version_1"]);
  });

  test("is what the engine serves after the swap, by its log-probabilities", () => {
    const served = report.iterations[0]?.served;
    expect(served?.method).toBe("swap");
    expect(served?.to_new).toBeLessThanOrEqual(0.004);
    expect(served?.to_old).toBeGreaterThanOrEqual(0.01);
  });
});

test("at least nine in ten rewarded rollouts hold a real tool call whose result is the answer given", async () => {
  const { items } = await store.queryRollouts({});
  let rewarded = 0;
  let proven = 0;
  for (const { rollout_id } of items) {
    const { items: spans } = await store.querySpans({ rollout_id, attempt_id: "latest" });
    const reward = spans.findLast(({ name }) => name === "agentlightning.annotation");
    if (reward?.attributes["agentlightning.reward.0.value"] !== 1) continue;
    rewarded += 1;
    const completion = spans.findLast(({ name }) => name === "litellm_request");
    const answer = Number(
      /###\s*(.+?)\s*###/.exec(String(completion?.attributes["gen_ai.completion.0.content"]))?.[1],
    );
    const results = spans
      .filter(({ name }) => name === "agl.tool_call")
      .map(({ attributes }) => Number(attributes["agl.tool.result"]));
    if (results.some((result) => Math.abs(result - answer) <= 1e-3 * Math.abs(answer))) proven += 1;
  }
  expect(rewarded).toBeGreaterThan(50);
  expect(proven / rewarded).toBeGreaterThanOrEqual(0.9);
});

describe("a run that is interrupted", () => {
  const killed = join(folder, "killed");
  const small = ["--iterations", "1", "--tasks-train-limit", "24", "--tasks-validation-limit", "8"];
  const moments: [string, RegExp][] = [
    ["engine start", /^starting the engine/],
    ["rollouts", /iteration 1 rollouts: /],
    ["training", /^version_1: training/],
    ["the swap", /^version_1: swapping/],
    ["evaluation", /version_1 validation/],
  ];

  test.each(moments)("leaves no process within 5 s when it is killed during %s", async (moment, line) => {
    const cwd = join(killed, basename(moment.replace(/ /g, "-")));
    mkdirSync(cwd, { recursive: true });
    const victim = startAgl(["allinone", ...small, "--selection-fraction", "1"], cwd);
    await victim.waitForLine(line, 5 * minute);
    await Bun.sleep(moment === "the swap" || moment === "evaluation" ? 20 : 1_500);
    expect(victim.processes().length).toBeGreaterThan(1);
    victim.signal("SIGKILL");
    await until("no process of the run lives", () => victim.processes().length === 0, 5_000);
  });

  test("leaves no process within 5 s when it is killed while the environment is made", async () => {
    const cwd = join(killed, "setup");
    mkdirSync(cwd, { recursive: true });
    const victim = startAgl(["setup", "--cache", join(cwd, "cache")], cwd, { AGL_PYTHON: undefined });
    await until("uv is at work", () => victim.processes().length > 2, minute);
    victim.signal("SIGKILL");
    await until("no process of the run lives", () => victim.processes().length === 0, 5_000);
  });

  // O22
  test("by Ctrl-C says so in a line or two, exits with 130, and its running attempts end as cancelled", async () => {
    const cwd = join(killed, "ctrl-c");
    mkdirSync(cwd, { recursive: true });
    const victim = startAgl(["allinone", ...small], cwd);
    await victim.waitForLine(/validation greedy: /, 5 * minute);
    victim.signal("SIGINT");
    expect(await victim.exited).toBe(130);
    await until("no process of the run lives", () => victim.processes().length === 0, 5_000);
    const said = victim.errors().split("\n").filter(Boolean);
    expect(said.length).toBeLessThanOrEqual(2);
    expect(said.join("\n")).not.toContain("    at ");
    const stopped = openStore({
      path: join(cwd, "runs", readdirSync(join(cwd, "runs"))[0] as string, "store.db"),
    });
    try {
      const { items } = await stopped.queryRollouts({ status_in: ["failed", "preparing", "running"] });
      const attempts = await Promise.all(items.map(({ rollout_id }) => stopped.getLatestAttempt(rollout_id)));
      expect(
        attempts.filter((attempt) => attempt?.status === "preparing" || attempt?.status === "running"),
      ).toEqual([]);
      expect(attempts.some((attempt) => attempt?.metadata?.["reason"] === "cancelled")).toBe(true);
    } finally {
      await stopped.close();
    }
  });
});
