import { expect, test } from "bun:test";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Report } from "../../src/algorithm/report.ts";
import { freePort } from "../../src/engine/port-owner.ts";
import { openStore } from "../../src/store/sqlite-store.ts";
import { until } from "../helpers/processes.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";
import { type AglProcess, startAgl } from "./agl-process.ts";

/** The compiled binary with real vLLM and TRL, at a size that takes seconds, in places and with parts that fail. */
const folder = temporaryFolder();
const minute = 60_000;
const small = ["--iterations", "1", "--tasks-train-limit", "24", "--tasks-validation-limit", "8"];
const deadAddress = "http://127.0.0.1:9";
const deadProxies = Object.fromEntries(
  ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"].map((name) => [
    name,
    deadAddress,
  ]),
);

function start(name: string, args: string[] = [], environment: Record<string, string> = {}) {
  const cwd = join(folder, name);
  mkdirSync(cwd, { recursive: true });
  const ports = ["--store-port", String(freePort()), "--proxy-port", String(freePort())];
  return { cwd, agl: startAgl(["allinone", ...small, ...ports, ...args], cwd, environment) };
}

function runFolder(cwd: string): string {
  return join(cwd, "runs", readdirSync(join(cwd, "runs"))[0] as string);
}

async function leavesNothing(agl: AglProcess): Promise<void> {
  await until("no process of the run lives", () => agl.processes().length === 0, 5_000);
}

function kill(agl: AglProcess, word: string): void {
  const pid = agl.processes().find((each) => {
    const command = readFileSync(`/proc/${each}/cmdline`, "utf8");
    return command.includes(word) && !command.includes("__guard");
  });
  if (pid === undefined) throw new Error(`no process with ${word}`);
  process.kill(pid, "SIGKILL");
}

async function failureOf(agl: AglProcess): Promise<string> {
  expect(await agl.exited).toBe(1);
  await leavesNothing(agl);
  expect(agl.errors()).not.toMatch(/^\s+at |Traceback|internal error/m);
  return agl.errors();
}

test(
  "a path too long for a socket, with blanks and letters of other scripts, dead proxies and killed runners: it still trains",
  async () => {
    const name = `${"x".repeat(90)} räum/${"y".repeat(60)} 日本`;
    const { agl, cwd } = start(name, ["--selection-rule", "recipe"], deadProxies);
    await agl.waitForLine(/^iteration 1 rollouts: /, 3 * minute);
    kill(agl, "__runners");
    await agl.waitForLine(/^the runners ended \(signal SIGKILL\).* \(1 of 3\)$/, minute);
    expect({ code: await agl.exited, said: agl.errors() }).toEqual({ code: 0, said: "" });
    await leavesNothing(agl);
    const report = JSON.parse(readFileSync(join(runFolder(cwd), "report.json"), "utf8")) as Report;
    const [iteration] = report.iterations;
    expect((iteration?.succeeded ?? 0) + (iteration?.failed ?? 0)).toBe(24);
    expect(iteration?.updated).toBe(true);
    expect(existsSync(join(runFolder(cwd), "models", "version_1", "STABLE"))).toBe(true);
  },
  5 * minute,
);

test(
  "a model server killed during rollouts: said with its log, attempts ended, nothing left",
  async () => {
    const { agl, cwd } = start("killed-engine");
    await agl.waitForLine(/validation greedy: /, 3 * minute);
    kill(agl, "vllm.entrypoints");
    const said = await failureOf(agl);
    expect(said).toContain("error: vLLM ended while serving (signal SIGKILL)");
    expect(said).toContain(join(runFolder(cwd), "logs", "vllm.log"));
    const store = openStore({ path: join(runFolder(cwd), "store.db") });
    try {
      const { items } = await store.queryRollouts({ status_in: ["preparing", "running"] });
      expect(items).toEqual([]);
    } finally {
      await store.close();
    }
  },
  4 * minute,
);

test(
  "a training past its limit: said with the setting and the log, and no half made version is visible",
  async () => {
    const { agl, cwd } = start(
      "slow-trainer",
      "--trainer-timeout-seconds 1 --selection-rule recipe --selection-fraction 1".split(" "),
    );
    const said = await failureOf(agl);
    expect(said).toStartWith("error: the training took longer than 1 s\n");
    expect(said).toContain("trainer.timeout_seconds");
    expect(readdirSync(join(runFolder(cwd), "models")).filter((name) => !name.startsWith("."))).toEqual([
      "version_0",
    ]);
  },
  4 * minute,
);

test(
  "a model that the server does not know: its true cause in one line",
  async () => {
    const model = join(folder, "model");
    cpSync(join(import.meta.dir, "..", "..", "data", "small-model"), model, { recursive: true });
    writeFileSync(
      join(model, "config.json"),
      '{"model_type": "nonsense", "architectures": ["FooForCausalLM"]}',
    );
    const { agl } = start("unknown-model", ["--model", model]);
    const said = await failureOf(agl);
    expect(said).toStartWith("error: vLLM ended at its start");
    expect(said).toContain("nonsense");
  },
  3 * minute,
);
