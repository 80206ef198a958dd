import { availableParallelism } from "node:os";
import { AglError, messageOf } from "../errors.ts";
import type { Logger } from "../log.ts";
import { CauseFinder } from "./cause.ts";
import { childEnvironment } from "./child-environment.ts";
import { type ChildExit, describeExit, explainExit, type GuardedChild, spawnGuarded } from "./child.ts";
import { type EngineAddress, EngineClient } from "./engine-client.ts";
import { descendantsOf } from "./process-tree.ts";
import { makeScratchFolder, type ScratchFolder } from "./scratch-folder.ts";
import { type PrivateSocket, privateSocket } from "./socket-path.ts";

export type { EngineAddress };

export type EngineState = "stopped" | "starting" | "ready" | "sleeping" | "stopping" | "failed";

export interface EngineCheckpoint {
  /** Folder with weights, tokenizer and chat template. */
  path: string;
  /** `version_1`: written on spans and in reports. */
  name: string;
}

export interface EngineOptions {
  python: string;
  profile: "cpu" | "cuda";
  /** The id clients see in `/v1/models`. */
  modelName: string;
  maxModelLen: number;
  /** vLLM's name for how the model writes tool calls; `hermes` by default. */
  toolCallParser?: string;
  /** A TCP port on loopback; without one the server listens on a Unix socket of ours. */
  port?: number;
  folder: string;
  logFile: string;
  log: Logger;
  /** More flags for vLLM, as they are. */
  extraArguments?: string[];
  startTimeoutMs?: number;
  /** How long one generation of the readiness check may take. */
  probeTimeoutMs?: number;
  stopGraceMs?: number;
}

const healthPollMs = 50;
const requestTimeoutMs = 5_000;
const sleepTimeoutMs = 60_000;
const reloadTimeoutMs = 300_000;

/** A supervised vLLM server: one object owns its state, callers say `start`, `swap`, `sleep`, `wake` or `stop`. */
export class VllmEngine {
  readonly #options: EngineOptions;
  #state: EngineState = "stopped";
  #child: GuardedChild | undefined;
  #socket: PrivateSocket | undefined;
  #scratch: ScratchFolder | undefined;
  #client: EngineClient | undefined;
  #address: EngineAddress | undefined;
  #onDeath: ((error: AglError) => void) | undefined;

  constructor(options: EngineOptions) {
    this.#options = options;
  }

  get state(): EngineState {
    return this.#state;
  }

  get address(): EngineAddress {
    if (this.#address === undefined) throw new AglError("engine", `the engine is ${this.#state}`);
    return this.#address;
  }

  get client(): EngineClient {
    if (this.#client === undefined) throw new AglError("engine", `the engine is ${this.#state}`);
    return this.#client;
  }

  /** Pids of the server and of everything it started; none when it is stopped. */
  get processes(): number[] {
    return this.#child === undefined ? [] : [this.#child.pid, ...descendantsOf(this.#child.pid)];
  }

  /** Called once when a ready server exits without having been asked to. */
  onDeath(listener: (error: AglError) => void): void {
    this.#onDeath = listener;
  }

  /** Starts the server and returns when it lives, lists our model and has generated with token ids. */
  async start(checkpoint: EngineCheckpoint, signal?: AbortSignal): Promise<void> {
    if (this.#state !== "stopped" && this.#state !== "failed") {
      throw new AglError("engine", `the engine cannot start while it is ${this.#state}`);
    }
    signal?.throwIfAborted();
    this.#state = "starting";
    const cause = new CauseFinder();
    const child = this.#spawn(checkpoint, cause);
    this.#child = child;
    try {
      await this.#becomeReady(child, cause, signal);
    } catch (error) {
      await child.stop();
      this.#forget("failed");
      throw error;
    }
    this.#state = "ready";
    void child.exited.then((exit) => this.#died(child, exit, cause));
  }

  /** Puts other weights of the same shape into the running server; throws when it cannot. */
  async swap(checkpoint: EngineCheckpoint): Promise<void> {
    if (this.#state !== "ready")
      throw new AglError("engine", `no weights to swap: the engine is ${this.#state}`);
    await this.client.reloadWeights(checkpoint.path, reloadTimeoutMs);
    await this.client.generateOnce(this.#options.modelName, this.#probeTimeoutMs);
  }

  /** Leaves the GPU's memory to others; throws when the server cannot, and is then best stopped. */
  async sleep(): Promise<void> {
    if (this.#state !== "ready") throw new AglError("engine", `it is ${this.#state}, and cannot sleep`);
    await this.client.sleep(sleepTimeoutMs);
    this.#state = "sleeping";
  }

  /** Serves again after a sleep, from this checkpoint; throws when it cannot, and is then best stopped. */
  async wake(checkpoint: EngineCheckpoint): Promise<void> {
    if (this.#state !== "sleeping") throw new AglError("engine", `it is ${this.#state}, and cannot wake`);
    await this.client.wake(checkpoint.path, reloadTimeoutMs);
    await this.client.generateOnce(this.#options.modelName, this.#probeTimeoutMs);
    this.#state = "ready";
  }

  async stop(): Promise<void> {
    const child = this.#child;
    if (child === undefined) return;
    this.#state = "stopping";
    await child.stop();
    this.#forget("stopped");
  }

  #spawn(checkpoint: EngineCheckpoint, cause: CauseFinder): GuardedChild {
    const options = this.#options;
    this.#scratch = makeScratchFolder();
    const listen = this.#listen();
    const command = [options.python, ...serverArguments(options, checkpoint, listen)];
    options.log.debug("starting vLLM", { checkpoint: checkpoint.name, command: command.join(" ") });
    return spawnGuarded(command, {
      env: serverEnvironment(options.profile, this.#scratch.path),
      logFile: options.logFile,
      graceMs: options.stopGraceMs ?? 10_000,
      onLine: (line) => cause.see(line),
    });
  }

  #listen(): string[] {
    const { port, folder } = this.#options;
    if (port !== undefined) {
      this.#address = { origin: `http://127.0.0.1:${port}` };
      this.#client = new EngineClient(this.#address);
      return ["--host", "127.0.0.1", "--port", String(port)];
    }
    this.#socket = privateSocket(folder);
    this.#address = { origin: "http://engine", unixSocket: this.#socket.path };
    this.#client = new EngineClient(this.#address);
    return ["--uds", this.#socket.path];
  }

  async #becomeReady(child: GuardedChild, cause: CauseFinder, signal?: AbortSignal): Promise<void> {
    const limitMs = this.#options.startTimeoutMs ?? 600_000;
    const deadline = Date.now() + limitMs;
    let exit: ChildExit | undefined;
    void child.exited.then((ended) => (exit = ended));
    while (!(await this.client.isHealthy(requestTimeoutMs))) {
      signal?.throwIfAborted();
      if (exit !== undefined) throw this.#endFailure("ended at its start", exit, cause);
      if (Date.now() > deadline) throw this.#startFailure(`was not ready after ${limitMs / 1000} s`, cause);
      await Bun.sleep(healthPollMs);
    }
    const served = await this.client.models(requestTimeoutMs);
    if (exit !== undefined) throw this.#endFailure("ended at its start", exit, cause);
    if (!served.includes(this.#options.modelName)) {
      throw new AglError(
        "engine",
        `another server answers: it lists ${served.join(", ")}, not ${this.#options.modelName}`,
        {
          remedy: "choose another port with --engine-port, or none to use a private socket",
        },
      );
    }
    try {
      await this.client.generateOnce(this.#options.modelName, this.#probeTimeoutMs);
    } catch (error) {
      throw this.#startFailure(`is healthy but does not generate (${messageOf(error)})`, cause);
    }
  }

  get #probeTimeoutMs(): number {
    return this.#options.probeTimeoutMs ?? 120_000;
  }

  #endFailure(what: string, exit: ChildExit, cause: CauseFinder): AglError {
    return this.#failure(`${what} (${describeExit(exit)})`, explainExit(exit, cause));
  }

  #startFailure(what: string, cause: CauseFinder): AglError {
    return this.#failure(what, cause.cause());
  }

  #failure(what: string, why: string | undefined): AglError {
    return new AglError("engine", `vLLM ${what}${why === undefined ? "" : `: ${why}`}`, {
      remedy: `see its log: ${this.#options.logFile}`,
    });
  }

  #died(child: GuardedChild, exit: ChildExit, cause: CauseFinder): void {
    if (this.#child !== child) return;
    if (this.#state === "sleeping") {
      // Nobody is served meanwhile, so this ends nothing: whoever wants to wake it finds it failed and starts it.
      const { message } = this.#endFailure("ended while it slept", exit, cause);
      this.#options.log.warning(message);
      this.#forget("failed");
      return;
    }
    if (this.#state !== "ready") return;
    this.#forget("failed");
    this.#onDeath?.(this.#endFailure("ended while serving", exit, cause));
  }

  #forget(state: EngineState): void {
    this.#socket?.remove();
    this.#scratch?.remove();
    this.#scratch = undefined;
    this.#socket = undefined;
    this.#child = undefined;
    this.#client = undefined;
    this.#address = undefined;
    this.#state = state;
  }
}

function serverArguments(options: EngineOptions, checkpoint: EngineCheckpoint, listen: string[]): string[] {
  return [
    "-m",
    "vllm.entrypoints.openai.api_server",
    "--model",
    checkpoint.path,
    "--served-model-name",
    options.modelName,
    ...listen,
    "--enable-auto-tool-choice",
    "--tool-call-parser",
    options.toolCallParser ?? "hermes",
    // The checkpoint's own generation_config must never change the sampling silently.
    "--generation-config",
    "vllm",
    "--max-model-len",
    String(options.maxModelLen),
    "--disable-uvicorn-access-log",
    // Compiling took 205-282 s on two cores and gained nothing.
    ...(options.profile === "cpu" ? ["--enforce-eager", "--dtype", "bfloat16"] : []),
    ...(options.extraArguments ?? []),
  ];
}

function serverEnvironment(profile: "cpu" | "cuda", scratch: string): Record<string, string> {
  return childEnvironment({
    TMPDIR: scratch,
    // Opens the sleep and reload routes; only we can reach them, on a socket in a folder of mode 0700.
    VLLM_SERVER_DEV_MODE: "1",
    HF_HUB_OFFLINE: "1",
    TRANSFORMERS_OFFLINE: "1",
    VLLM_NO_USAGE_STATS: "1",
    DO_NOT_TRACK: "1",
    VLLM_HOST_IP: "127.0.0.1",
    PYTHONUNBUFFERED: "1",
    ...(profile === "cpu"
      ? { VLLM_CPU_KVCACHE_SPACE: "1", VLLM_CPU_OMP_THREADS_BIND: `0-${availableParallelism() - 1}` }
      : {}),
  });
}
