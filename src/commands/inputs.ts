import { join, resolve } from "node:path";
import mathAgent from "../agent/math-agent.ts";
import { type ModelSettings, readModelSettings } from "../algorithm/model-settings.ts";
import { anyTaskSchema, mathTaskSchema, readTasks } from "../algorithm/tasks.ts";
import { assetFolder } from "../assets.ts";
import { cacheFolder } from "../cache-folder.ts";
import type { Config, ResolvedConfig } from "../config.ts";
import type { ModelUse } from "../engine/base-model-check.ts";
import { findBaseModel, resolveBaseModel } from "../engine/base-model-source.ts";
import { checkBaseModel } from "../engine/base-model.ts";
import { childEnvironment } from "../engine/child-environment.ts";
import { machineMemory } from "../engine/machine-memory.ts";
import { type GpuPlan, planModel } from "../engine/gpu-plan.ts";
import { readModelShape } from "../engine/model-shape.ts";
import { type ChosenProfile, chooseProfile, type Profile, profileFor } from "../engine/profile.ts";
import { AglError, UsageError } from "../errors.ts";
import { silentLogger } from "../log.ts";
import { withoutSecrets } from "../secrets.ts";
import { flagOf } from "../settings.ts";
import { type CheckedAgent, checkAgent } from "./check-agent.ts";
import { gpuUse } from "./gpu-use.ts";
import { checkPorts } from "./ports.ts";
import { listModels } from "./external-models.ts";
import { namedPython, preparePython } from "./python.ts";

export interface Inputs {
  assets: string;
  cache: string;
  profile: Profile;
  modelFolder: string;
  model: ModelSettings;
  /** How the model is served on a GPU of ours. */
  gpuPlan: GpuPlan | undefined;
  /** What agents call it. */
  modelName: string;
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
  sources: ResolvedConfig["sources"];
}

export interface InputsContext {
  /** Lines for the user. */
  say: (line: string) => void;
  signal: AbortSignal;
}

/** Everything that a user can get wrong, checked before anything is started or written into the run's folder. */
export async function readInputs(config: Config, plan: InputsPlan, context: InputsContext): Promise<Inputs> {
  const { signal } = context;
  checkPorts(config, { store: plan.storeUrl === undefined, sources: plan.sources });
  checkRecording(config);
  checkTasks(config, plan);
  const cache = cacheFolder(config.cache);
  const assets = await assetFolder(cache);
  const given = config.model ?? join(assets, "data", "small-model");
  const here = findBaseModel(given, cache);
  const { profile, gpu } = await profileOf(config, signal);
  checkQuantization(config, profile);
  const use: ModelUse =
    profile === "cpu"
      ? { profile, availableMemoryBytes: machineMemory().freeBytes }
      : { profile, ...(gpu === undefined ? {} : { gpu: gpuUse(gpu, config) }) };
  if (here !== undefined) checkModel(here, config, use);
  const tasks = readTaskFiles(config, join(assets, "data", "tasks"), plan);
  const named = config.python === undefined ? undefined : await namedPython(config.python, profile, signal);
  const agent = config.agent === undefined ? undefined : resolve(config.agent);
  const uvx = uvxCommand(config);
  const { name, commands } = agent === undefined ? builtInAgent() : await checkAgent(agent, signal);
  if (plan.ownRunners) {
    for (const [server, command] of Object.entries(commands)) checkToolCommand(server, command, uvx);
  }
  const wanted = agent === undefined && config["tasks.train"] !== undefined ? undefined : name;
  const agentName = config["runners.agent_name"] ?? wanted;
  const places = { assets, cache, profile };
  const python = named ?? (here === undefined ? await makePython(config, places, context) : undefined);
  const modelFolder = here ?? (await fetchModel(given, python as string, places, use, context));
  const model = checkModel(modelFolder, config, use);
  const gpuPlan = planServing(modelFolder, model, config, use, context);
  const modelName = await chooseModelName(config, model);
  return { ...places, modelFolder, model, gpuPlan, modelName, python, agent, agentName, uvx, tasks };
}

/** Only what is served and trained here needs a GPU. */
function profileOf(config: Config, signal: AbortSignal): Promise<ChosenProfile> | ChosenProfile {
  if (config["engine.url"] === undefined) return chooseProfile(config.profile, signal);
  return { profile: profileFor(config.profile, { kind: "absent" }) };
}

function checkQuantization(config: Config, profile: Profile): void {
  if (profile === "cuda" || (config["engine.quantization"] ?? "none") === "none") return;
  throw new UsageError(
    `engine.quantization: ${config["engine.quantization"]} needs a GPU, and the profile is cpu`,
    "leave it out, or use --profile cuda",
  );
}

function planServing(
  folder: string,
  model: ModelSettings,
  config: Config,
  { gpu }: ModelUse,
  { say }: InputsContext,
): GpuPlan | undefined {
  if (gpu === undefined) return undefined;
  const plan = planModel(gpu, readModelShape(folder), config["engine.max_model_len"] ?? model.max_model_len);
  for (const note of plan.notes) say(`gpu: ${note}`);
  return plan;
}

function checkModel(folder: string, config: Config, use: ModelUse): ModelSettings {
  // A fault of the folder is named before one of its settings, which cannot be read without config.json.
  checkBaseModel(folder, use);
  const settings = readModelSettings(folder);
  const contextLength = config["engine.max_model_len"] ?? settings.max_model_len;
  if (config["engine.url"] === undefined) checkBaseModel(folder, { ...use, contextLength });
  return settings;
}

interface Places {
  assets: string;
  cache: string;
  profile: Profile;
}

function makePython(config: Config, places: Places, { say, signal }: InputsContext): Promise<string> {
  return preparePython(config, { ...places, log: silentLogger, say, signal });
}

/** From the hub, with the environment's own library, once. */
async function fetchModel(
  model: string,
  python: string,
  { assets, cache }: Places,
  use: ModelUse,
  { say, signal }: InputsContext,
): Promise<string> {
  const script = join(assets, "trainer", "fetch_model.py");
  const found = await resolveBaseModel({
    model,
    cacheFolder: cache,
    python,
    script,
    use,
    signal,
    onProgress: say,
    log: silentLogger,
  });
  return found.path;
}

/** Of a server that runs elsewhere, what it lists counts. */
async function chooseModelName(config: Config, model: ModelSettings): Promise<string> {
  const url = config["engine.url"];
  if (url === undefined) return config.model_name ?? model.served_name;
  const listed = await listModels(url, config["engine.api_key"]);
  const name = config.model_name ?? listed[0];
  if (name !== undefined && listed.includes(name)) return name;
  throw new UsageError(
    `model_name: ${withoutSecrets(url)} has no model ${name ?? ""}; it lists ${listed.join(", ")}`,
    "name one of these with --model-name",
  );
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

/** Tasks of another agent than the math agent, of which one file is the small model's. */
function checkTasks(config: Config, { ownRunners }: InputsPlan): void {
  if (config.agent === undefined && ownRunners) return;
  const names = ["tasks.train", "tasks.validation"] as const;
  const unset = names.filter((name) => config[name] === undefined);
  const [missing] = unset;
  if (missing === undefined || unset.length === names.length) return;
  throw new UsageError(
    `${missing} is unset, and the small model's tasks do not go with tasks of your own`,
    `name a file of tasks with ${flagOf(missing)}`,
  );
}

function readTaskFiles(config: Config, ours: string, { ownRunners }: InputsPlan): Inputs["tasks"] {
  // Which agent runners elsewhere have, and what its tasks look like, only they know.
  const schema = config.agent === undefined && ownRunners ? mathTaskSchema : anyTaskSchema;
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
