import { join, resolve } from "node:path";
import mathAgent from "../agent/math-agent.ts";
import { assetFolder } from "../assets.ts";
import { cacheFolder } from "../cache-folder.ts";
import type { Config, ResolvedConfig } from "../config.ts";
import { checkCalculator } from "../doctor/calculator.ts";
import {
  type Check,
  type CheckResult,
  type Finding,
  ok,
  runChecks,
  type Status,
  warning,
} from "../doctor/check.ts";
import { checkCompiler } from "../doctor/compiler.ts";
import { checkGpu, checkMemory, checkPort, checkSpace } from "../doctor/machine.ts";
import { checkModel, modelBytes } from "../doctor/model.ts";
import { checkUv, checkVersions } from "../doctor/python.ts";
import { childEnvironment } from "../engine/child-environment.ts";
import { findGpus, type GpuAnswer } from "../engine/gpu.ts";
import { machineMemory } from "../engine/machine-memory.ts";
import type { ModelUse } from "../engine/base-model-check.ts";
import { type Profile, profileFor } from "../engine/profile.ts";
import { environmentBytes } from "../engine/python-environment.ts";
import { AglError } from "../errors.ts";
import { checkAgent } from "./check-agent.ts";
import { basePython, isHere, pythonHere, pythonToAsk } from "./doctor-python.ts";
import { gpuUse } from "./gpu-use.ts";
import { uvxCommand } from "./inputs.ts";
import { isDefault } from "./ports.ts";
import { stopOnSignals } from "./stop-signals.ts";

const notMade = "the Python environment is not made yet";
const quickMs = 30_000;
const calculatorStartMs = 60_000;
const logsBytes = 0.5e9;

/** `agl doctor`: one line for each thing a run needs; exit code 1 when there is a problem. */
export async function doctor(
  config: Config,
  { json, sources }: { json: boolean; sources: ResolvedConfig["sources"] },
): Promise<number> {
  const say = (line: string) => console.log(line);
  const stop = stopOnSignals((line) => process.stderr.write(`${line}\n`));
  try {
    const checks = await checksFor(config, sources, stop.signal);
    const width = Math.max(...checks.map(({ name }) => name.length));
    const show = (result: CheckResult) => describe(result, width).forEach(say);
    const results = await runChecks(checks, stop.signal, json ? () => {} : show);
    stop.signal.throwIfAborted();
    const count = (status: Status) => results.filter((result) => result.status === status).length;
    if (json) say(JSON.stringify({ ok: count("problem") === 0, checks: results }, null, 2));
    else say(`${count("ok")} ok, ${count("warning")} warnings, ${count("problem")} problems`);
    return count("problem") === 0 ? 0 : 1;
  } finally {
    stop.release();
  }
}

async function checksFor(
  config: Config,
  sources: ResolvedConfig["sources"],
  signal: AbortSignal,
): Promise<Check[]> {
  const cache = cacheFolder(config.cache);
  const assets = await assetFolder(cache);
  const requirementsFolder = join(assets, "trainer", "requirements");
  const model = config.model ?? join(assets, "data", "small-model");
  const gpus = findGpus(signal);
  // Whoever awaits it says so.
  gpus.catch(() => {});
  const profile = async () => profileOf(config, gpus);
  const environment = shared(async () =>
    pythonHere(config, await profile(), requirementsFolder, cache, signal),
  );
  const modelFindings = shared(async () =>
    checkModel(model, cache, config["engine.max_model_len"], {
      profile: await profile(),
      ...(await memoryAtHand(await profile(), gpus, config)),
    }),
  );
  const agent = shared(async () => agentFinding(config, signal));
  const quick = (name: string, run: Check["run"]): Check => ({ name, limitMs: quickMs, run });
  const slow = (name: string, run: Check["run"]): Check => ({
    name,
    limitMs: calculatorStartMs + quickMs,
    run,
  });
  return [
    quick("gpu", async () => checkGpu(config.profile, await profile(), await gpus)),
    quick("memory", async () => checkMemory(await profile(), machineMemory())),
    slow("uv", async (given) => checkUv(config.uv, !(await isHere(environment)), given)),
    slow("python", async (given) => (await environment()).finding ?? basePython(config, given)),
    slow("versions", async (given) => {
      const python = await pythonToAsk(config, environment);
      if (python === null) return [];
      if (python === undefined) return warning(notMade, "run `agl setup`; otherwise it is made on first use");
      return checkVersions(python, await profile(), requirementsFolder, given);
    }),
    slow("compiler", async (given) => {
      if ((await profile()) === "cpu") return [];
      const python = await pythonToAsk(config, environment);
      return typeof python === "string" ? checkCompiler(python, given) : [];
    }),
    quick("model", () => modelFindings()),
    quick("ports", () =>
      (["store.port", "proxy.port", "engine.port"] as const).map((name) =>
        checkPort(name, config[name], !isDefault(name, sources)),
      ),
    ),
    slow("disk", async () => [
      checkSpace("runs", config.runs, modelBytes(model, cache) * config.iterations + logsBytes, "--runs"),
      checkSpace(
        "cache",
        cache,
        (await isHere(environment)) ? 0 : environmentBytes[await profile()],
        "--cache",
      ),
    ]),
    slow(config.agent === undefined ? "calculator" : "agent", () => agent()),
    slow("offline", async () =>
      offline({
        "the Python environment": await isHere(environment),
        "the model": await allOk(modelFindings),
        "the agent's tools": await allOk(agent),
      }),
    ),
  ];
}

/** A driver that hangs must not keep the checks that need no GPU. */
async function profileOf(config: Config, gpus: Promise<GpuAnswer>): Promise<Profile> {
  if (config.profile !== "auto") return config.profile;
  return profileFor(config.profile, await gpus);
}

async function memoryAtHand(
  profile: Profile,
  gpus: Promise<GpuAnswer>,
  config: Config,
): Promise<Pick<ModelUse, "availableMemoryBytes" | "gpu">> {
  if (profile === "cpu") return { availableMemoryBytes: machineMemory().freeBytes };
  const answer = await gpus;
  return answer.kind === "found" ? { gpu: gpuUse(answer.gpus[0], config) } : {};
}

/** The math agent's calculator really starts; another agent is loaded, and its tools are only looked for. */
async function agentFinding(config: Config, signal: AbortSignal): Promise<Finding> {
  if (config.agent !== undefined) {
    const { commands } = await checkAgent(resolve(config.agent), signal);
    const missing = Object.entries(commands).find(
      ([, command]) => Bun.which(command, { PATH: childEnvironment()["PATH"] ?? "" }) === null,
    );
    if (missing !== undefined) {
      throw new AglError("tool", `its tool server ${missing[0]}: the command ${missing[1]} was not found`, {
        remedy: "install it, or put its folder on PATH",
      });
    }
    const tools = Object.keys(commands).join(", ");
    return ok(`${config.agent} loads${tools === "" ? "" : `; its tool servers: ${tools}`}`);
  }
  return checkCalculator({
    server: mathAgent.tools.calculator,
    uvx: uvxCommand(config),
    environment: childEnvironment(),
    startLimitMs: calculatorStartMs,
    signal,
  });
}

function offline(here: Record<string, boolean>): Finding {
  const missing = Object.keys(here).filter((name) => !here[name]);
  if (missing.length === 0) return ok("everything is here: runs need no network");
  return warning(
    `not ready without a network: ${missing.join(", ")}`,
    "see the lines above; `agl setup` makes the environment",
  );
}

function shared<Result>(make: () => Promise<Result>): () => Promise<Result> {
  let made: Promise<Result> | undefined;
  return () => (made ??= make());
}

async function allOk(findings: () => Promise<Finding | Finding[]>): Promise<boolean> {
  try {
    return [await findings()].flat().every(({ status }) => status === "ok");
  } catch {
    // Said by its own check.
    return false;
  }
}

function describe({ status, check, message, remedy }: CheckResult, width: number): string[] {
  const line = `${status.padEnd(7)}  ${check.padEnd(width)}  ${message}`;
  return remedy === undefined ? [line] : [line, `${" ".repeat(width + 11)}-> ${remedy}`];
}
