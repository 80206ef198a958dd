import { logLevels } from "./log.ts";
import { address, choice, integer, list, optional, real, text, toggle, url } from "./setting.ts";
import { hostName, listenAddress, origin } from "./web-names.ts";

const port = { minimum: 1, maximum: 65_535 };

/**
 * Every setting there is. `engine.max_model_len` here is `[engine] max_model_len` in agl.toml,
 * AGL_ENGINE_MAX_MODEL_LEN in the environment and --engine-max-model-len as a flag.
 */
export const settings = {
  profile: choice(["auto", "cpu", "cuda"], "auto", "where to serve and train"),
  model: optional(
    text(
      "",
      "base model: a folder, or a model of the hub as owner/name; the small model when unset",
      "model",
    ),
  ),
  model_name: optional(
    text("", "name agents use for the model; from the model's settings when unset", "name"),
  ),
  agent: optional(text("", "agent file (TypeScript); the math agent when unset", "file")),
  seed: integer(0, "seed of sampling, selection and training"),
  iterations: integer(2, "rounds of rollouts and training", { minimum: 1, maximum: 1_000 }),
  log_level: choice(logLevels, "warning", "least severe log lines on stderr"),

  token_file: optional(
    text("", "file with the store's token; AGL_TOKEN in the environment holds the token itself", "file"),
  ),

  "tasks.train": optional(text("", "training tasks (JSONL); the small model's when unset", "file")),
  "tasks.validation": optional(text("", "validation tasks (JSONL); the small model's when unset", "file")),
  "tasks.train_limit": optional(integer(0, "use only the first n training tasks", { minimum: 1 })),
  "tasks.validation_limit": optional(integer(0, "use only the first n validation tasks", { minimum: 1 })),

  "tasks.dev": integer(4, "training tasks that `dev` tries", { minimum: 1, maximum: 1_000 }),

  "store.host": address(
    "127.0.0.1",
    "address that `agl store` listens on; one that other machines reach needs a token",
    listenAddress,
  ),
  "store.port": integer(4747, "port of the store", port),
  "store.url": optional(
    url(
      "a store that runs already, ours or Agent-lightning's; `runners` and `algo` look at http://127.0.0.1:4747",
    ),
  ),
  "store.db": text(
    "agl.db",
    "file of `agl store`, and of `agl dev` when set; :memory: keeps nothing",
    "file",
  ),
  "store.scan_debounce_seconds": real(10, "least time between two looks for attempts past their limits"),
  "store.cors_origin": list("origin whose web pages may use the store, or * for all", "origin", origin),
  "store.allowed_host": list("name, beside localhost, under which the store is asked for", "name", hostName),
  "store.access_log": toggle("one line on stderr for every request that the store answers"),
  "store.connect_seconds": integer(600, "how long to wait for a store to answer", { minimum: 1 }),

  "proxy.port": integer(12_358, "port of the recording proxy", port),
  "proxy.url": optional(url("a proxy that runs already and forwards to the engine")),
  "proxy.model_list": optional(
    text("", "models of `agl proxy` (JSON), in the form of LiteLLM's model_list", "file"),
  ),
  "proxy.hold_seconds": optional(
    integer(30, "how long calls wait for a model server that is away; 0 in a run when unset", {
      maximum: 3_600,
    }),
  ),
  "proxy.spool_dir": optional(
    text(
      "",
      "where recorded calls wait while the store is away; agl-spool, in a run its folder, when unset",
      "folder",
    ),
  ),
  "proxy.spool_max_mb": integer(1_024, "how much may wait there, in MiB", {
    minimum: 1,
    maximum: 1_000_000,
  }),
  "proxy.when_full": choice(
    ["refuse", "drop"],
    "refuse",
    "when no more can wait: refuse new calls, or answer them and lose their record",
  ),
  "proxy.off": toggle("give agents the engine itself; needs runners.tracer openai and adapter tracer"),
  adapter: choice(["proxy", "tracer"], "proxy", "whose spans become rows: the proxy's, or the tracer's"),

  "engine.url": optional(
    url("an OpenAI-compatible server that runs already, ending in /v1; it gets no new weights", {
      ending: "/v1",
    }),
  ),
  "engine.api_key": text("dummy", "key for engine.url", "key"),
  "engine.port": optional(integer(12_316, "TCP port of the engine; a private socket when unset", port)),
  "engine.between": choice(["swap", "restart"], "swap", "how new weights get into the engine"),
  "engine.max_model_len": optional(integer(0, "context length served, in tokens", { minimum: 16 })),
  "engine.gpu_memory_utilization": real(0.7, "share of the GPU's memory that vLLM takes", {
    minimum: 0.05,
    maximum: 0.95,
  }),
  "engine.quantization": optional(
    choice(["none", "bitsandbytes"], "none", "how a GPU serves weights; by its memory when unset"),
  ),
  "engine.start_timeout_seconds": integer(600, "limit of one engine start", { minimum: 1 }),
  "engine.memory_wait_seconds": integer(
    120,
    "how long the GPU's memory is waited for between serving and training",
    { minimum: 1 },
  ),

  "runners.count": integer(4, "runner workers", { minimum: 1, maximum: 256 }),
  "runners.concurrency": integer(4, "attempts each worker holds at once", { minimum: 1, maximum: 256 }),

  "runners.tracer": choice(
    ["otel", "openai"],
    "otel",
    "what runners record: rewards and tools, or the calls of the agent's OpenAI client as well",
  ),
  "runners.prefix": text("Worker-", "beginning of the workers' names; differs between runners of one store"),
  "runners.agent_name": optional(
    text(
      "",
      "agent that `algo` waits for; that of `agent`, or the math agent for the small model's tasks",
      "name",
    ),
  ),
  "runners.connect_seconds": integer(600, "how long `algo` waits for a runner", { minimum: 1 }),

  "rollouts.attempt_timeout_seconds": integer(300, "limit of one attempt", { minimum: 1 }),
  "rollouts.phase_timeout_seconds": integer(7_200, "limit of one phase of rollouts", { minimum: 1 }),

  "selection.rule": choice(
    ["above-mean", "recipe"],
    "above-mean",
    "which calls are trained on: above-mean keeps those rewarded above the round's mean, recipe is Agent-lightning's rule",
  ),
  "selection.fraction": real(0.5, "best fraction of the rows", { minimum: 0.001, maximum: 1 }),
  "selection.shuffle_rewards": toggle("control: rewards permuted between rollouts", { hidden: true }),

  "trainer.timeout_seconds": integer(600, "limit of one training", { minimum: 1 }),
  "trainer.threads": optional(integer(0, "CPU threads; all of them when unset", { minimum: 1 })),
  "trainer.learning_rate": optional(
    real(0, "learning rate; from the model's settings when unset", { maximum: 1 }),
  ),
  "trainer.epochs": optional(
    integer(0, "passes over the rows; from the model's settings when unset", { minimum: 1 }),
  ),
  "trainer.batch_size": optional(
    integer(0, "rows of one step; from the model's settings when unset", { minimum: 1 }),
  ),
  "trainer.lora_r": optional(
    integer(0, "rank of the LoRA adapter; from the model's settings when unset", { minimum: 1 }),
  ),
  "trainer.lora_alpha": optional(
    integer(0, "scale of the LoRA adapter; from the model's settings when unset", { minimum: 1 }),
  ),
  "trainer.keep_adapter": toggle(
    "keep each version's LoRA adapter by itself, too, in PEFT's format (models/VERSION/adapter)",
  ),

  runs: text("runs", "folder in which each run gets a folder of its own", "folder"),
  cache: optional(text("", "folder of Python environments; ~/.cache/agl when unset", "folder")),
  python: optional(text("", "Python of an environment that exists already", "file")),
  uv: optional(text("", "uv to use; from PATH when unset", "file")),
  uvx: optional(text("", "uvx for tool servers; beside uv or from PATH when unset", "file")),
} as const;

export type SettingName = keyof typeof settings;

export function flagOf(name: string): string {
  return `--${name.replace(/[._]/g, "-")}`;
}

export function environmentNameOf(name: string): string {
  return `AGL_${name.replace(/\./g, "_").toUpperCase()}`;
}
