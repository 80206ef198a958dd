import { join, resolve } from "node:path";
import mathAgent from "../agent/math-agent.ts";
import { type ModelSettings, readModelSettings } from "../algorithm/model-settings.ts";
import { anyTaskSchema, mathTaskSchema, readTasks } from "../algorithm/tasks.ts";
import { assetFolder } from "../assets.ts";
import { cacheFolder } from "../cache-folder.ts";
import type { Config } from "../config.ts";
import { checkBaseModel } from "../engine/base-model.ts";
import { childEnvironment } from "../engine/child-environment.ts";
import { chooseProfile, type Profile } from "../engine/profile.ts";
import { AglError, UsageError } from "../errors.ts";
import { type CheckedAgent, checkAgent } from "./check-agent.ts";
import { checkPorts } from "./ports.ts";
import { namedPython } from "./python.ts";

export interface Inputs {
  assets: string;
  cache: string;
  profile: Profile;
  modelFolder: string;
  model: ModelSettings;
  /** Undefined when the pinned environment is to be used. */
  python: string | undefined;
  /** The built-in math agent when undefined. */
  agent: string | undefined;
  /** Name of the agent that the tasks are for, when it is known. */
  agentName: string | undefined;
  /** What tool commands mean by `uvx`, when it is not the one on PATH. */
  uvx: string[] | undefined;
  tasks: { train: unknown[]; validation: unknown[] };
}

export interface InputsPlan {
  ownRunners: boolean;
  storeUrl: string | undefined;
}

/** Everything that a user can get wrong, checked before anything is started or written into the run's folder. */
export async function readInputs(config: Config, plan: InputsPlan, signal: AbortSignal): Promise<Inputs> {
  checkPorts(config, { store: plan.storeUrl === undefined });
  checkRecording(config);
  const cache = cacheFolder(config.cache);
  const assets = await assetFolder(cache);
  const modelFolder = resolve(config.model ?? join(assets, "data", "small-model"));
  const model = readModelSettings(modelFolder);
  checkBaseModel(modelFolder);
  const tasks = readTaskFiles(config, join(assets, "data", "tasks"));
  const profile = chooseProfile(config.profile, config.python);
  const python = config.python === undefined ? undefined : await namedPython(config.python, profile, signal);
  const agent = config.agent === undefined ? undefined : resolve(config.agent);
  const uvx = uvxCommand(config);
  const { name, commands } = agent === undefined ? builtInAgent() : await checkAgent(agent, signal);
  if (plan.ownRunners) {
    for (const [server, command] of Object.entries(commands)) checkToolCommand(server, command, uvx);
  }
  const wanted = agent === undefined && config["tasks.train"] !== undefined ? undefined : name;
  const agentName = config["runners.agent_name"] ?? wanted;
  return { assets, cache, profile, modelFolder, model, python, agent, agentName, uvx, tasks };
}

function builtInAgent(): CheckedAgent {
  const commands = Object.entries(mathAgent.tools).map(([name, { command }]) => [name, command]);
  return { name: mathAgent.name, commands: Object.fromEntries(commands) };
}

/** Somebody has to record the calls, and what is recorded has to be read. */
function checkRecording(config: Config): void {
  if (config["proxy.off"] && (config["runners.tracer"] !== "openai" || config.adapter !== "tracer")) {
    throw new UsageError(
      `proxy.off: nobody would record token ids with runners.tracer ${config["runners.tracer"]} and adapter ${config.adapter}`,
      "add --runners-tracer openai --adapter tracer",
    );
  }
  if (config.adapter === "tracer" && config["runners.tracer"] !== "openai") {
    throw new UsageError(
      `adapter tracer: runners.tracer ${config["runners.tracer"]} records no calls`,
      "add --runners-tracer openai, or use adapter proxy",
    );
  }
}

function readTaskFiles(config: Config, ours: string): Inputs["tasks"] {
  const schema = config.agent === undefined ? mathTaskSchema : anyTaskSchema;
  const read = (configured: string | undefined, name: string, limit: number | undefined) =>
    readTasks(configured ?? join(ours, name), schema).slice(0, limit);
  return {
    train: read(config["tasks.train"], "train.jsonl", config["tasks.train_limit"]),
    validation: read(config["tasks.validation"], "validation.jsonl", config["tasks.validation_limit"]),
  };
}

/** The uvx that was named, or that of the uv that was named. */
export function uvxCommand(config: Config): string[] | undefined {
  if (config.uvx !== undefined) return [resolve(config.uvx)];
  if (config.uv !== undefined) return [resolve(config.uv), "tool", "run"];
  return undefined;
}

function checkToolCommand(server: string, command: string, uvx: string[] | undefined): void {
  const program = command === "uvx" && uvx !== undefined ? (uvx[0] ?? command) : command;
  if (Bun.which(program, { PATH: childEnvironment()["PATH"] ?? "" }) !== null) return;
  throw new AglError("tool", `tool server ${server}: its command ${program} was not found`, {
    remedy:
      command === "uvx"
        ? "install uv (`pip install uv`), or name its uvx with AGL_UVX"
        : "install it, or put its folder on PATH",
  });
}
