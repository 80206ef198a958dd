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
import { AglError } from "../errors.ts";
import { checkAgent } from "./check-agent.ts";
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
  /** What tool commands mean by `uvx`, when it is not the one on PATH. */
  uvx: string[] | undefined;
  tasks: { train: unknown[]; validation: unknown[] };
}

/** Everything that a user can get wrong, checked before anything is started or written into the run's folder. */
export async function readInputs(config: Config, signal: AbortSignal): Promise<Inputs> {
  checkPorts(config);
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
  const commands =
    agent === undefined
      ? Object.fromEntries(
          Object.entries(mathAgent.tools ?? {}).map(([name, { command }]) => [name, command]),
        )
      : await checkAgent(agent, signal);
  for (const [name, command] of Object.entries(commands)) checkToolCommand(name, command, uvx);
  return { assets, cache, profile, modelFolder, model, python, agent, uvx, tasks };
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
function uvxCommand(config: Config): string[] | undefined {
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
