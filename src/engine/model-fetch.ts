import { existsSync, readdirSync, statfsSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { AglError } from "../errors.ts";
import type { Logger } from "../log.ts";
import { CauseFinder } from "./cause.ts";
import { childEnvironment } from "./child-environment.ts";
import { describeExit, type GuardedChild, spawnGuarded } from "./child.ts";
import { fetchFailure } from "./fetch-failure.ts";
import { type FetchError, parseFetchLine } from "./fetch-lines.ts";
import type { HubName } from "./hub-name.ts";
import type { ModelUse } from "./base-model-check.ts";
import { planModel } from "./gpu-plan.ts";
import { cpuMemoryNeed, memoryShortage, readableSize } from "./model-memory.ts";
import { type ModelProblem, weightFiles, weightKindProblem } from "./model-weights.ts";

export interface FetchOptions {
  /** Python of an environment with huggingface_hub. */
  python: string;
  /** trainer/fetch_model.py */
  script: string;
  /** Added to the child's environment. */
  env?: Record<string, string>;
  signal: AbortSignal;
  /** Lines for the user. */
  onProgress: (line: string) => void;
  log: Logger;
  /** What it is for: a model that is too large is refused before its download. */
  use?: Omit<ModelUse, "contextLength">;
  /** A fetch without a single new byte for so long is given up. */
  stallLimitMs?: number;
}

const defaultStallLimitMs = 600_000;
const progressEveryMs = 5_000;
const stallPollMs = 250;

/** Fetches a model of the hub into a folder, which may hold what an earlier fetch left; throws when it is not whole. */
export async function fetchModel(hub: HubName, folder: string, options: FetchOptions): Promise<void> {
  await new Fetch(hub, folder, options).run();
}

/** One run of the fetching program. */
class Fetch {
  readonly #hub: HubName;
  readonly #folder: string;
  readonly #options: FetchOptions;
  readonly #environment: Record<string, string>;
  readonly #cause = new CauseFinder();
  readonly #keptBytes: number;
  #error: FetchError | undefined;
  #refusal: AglError | undefined;
  #finished = false;
  #bytes = -1;
  #grownAt = Date.now();
  #shownAt = 0;
  #shown = { at: Date.now(), bytes: 0 };

  constructor(hub: HubName, folder: string, options: FetchOptions) {
    this.#hub = hub;
    this.#folder = folder;
    this.#options = options;
    // Before the program starts, which moves files about.
    this.#keptBytes = bytesIn(folder);
    this.#environment = childEnvironment({ PYTHONUNBUFFERED: "1", ...options.env });
  }

  async run(): Promise<void> {
    const { python, script, signal } = this.#options;
    signal.throwIfAborted();
    const { name, revision } = this.#hub;
    const child: GuardedChild = spawnGuarded([python, script, name, revision, this.#folder, "--confirm"], {
      env: this.#environment,
      graceMs: 2_000,
      onLine: (line) => this.#take(line, child),
    });
    const stop = () => void child.stop();
    signal.addEventListener("abort", stop, { once: true });
    const stalls = setInterval(() => this.#stopWhenStalled(child), stallPollMs);
    try {
      const exit = await child.exited;
      signal.throwIfAborted();
      if (this.#refusal !== undefined) throw this.#refusal;
      if (this.#error !== undefined) throw fetchFailure(this.#error, this.#hub, this.#hasToken);
      if (exit.code !== 0 || !this.#finished) {
        const why = this.#cause.cause() ?? describeExit(exit);
        throw this.#fail(`it could not be fetched: ${why}`, "what was fetched so far is kept; try again");
      }
    } finally {
      clearInterval(stalls);
      signal.removeEventListener("abort", stop);
    }
  }

  get #hasToken(): boolean {
    return (this.#environment["HF_TOKEN"] ?? "") !== "";
  }

  #take(line: string, child: GuardedChild): void {
    const parsed = parseFetchLine(line);
    if (parsed === undefined) {
      this.#cause.see(line);
      this.#options.log.debug(line);
    } else if (parsed.kind === "listing") {
      this.#refusal = this.#refuse(parsed.files, parsed.parameters);
      if (this.#refusal !== undefined) void child.stop();
      else child.write("go\n");
    } else if (parsed.kind === "progress") this.#show(parsed.bytes, parsed.total);
    else if (parsed.kind === "error") this.#error = parsed;
    else this.#finished = true;
  }

  /** What the list of its files shows is not worth a download. */
  #refuse(files: Record<string, number>, parameters: number | undefined): AglError | undefined {
    const names = Object.keys(files);
    const problem = weightKindProblem(names, this.#hub.name) ?? this.#shortage(parameters);
    if (problem !== undefined) return this.#fail(problem.message, problem.remedy);
    const total = weightFiles(names).reduce((sum, name) => sum + (files[name] ?? 0), 0);
    const { bavail, bsize } = statfsSync(dirname(this.#folder));
    const missing = total - this.#keptBytes - bavail * bsize;
    if (missing <= 0) return undefined;
    return this.#fail(
      `its weights take ${readableSize(total)}, and ${dirname(this.#folder)} has ${readableSize(bavail * bsize)} free`,
      "free some space, or name another folder with --cache",
    );
  }

  #shortage(parameters: number | undefined): ModelProblem | undefined {
    if (parameters === undefined) return undefined;
    const { profile = "cpu", purpose = "improve", availableMemoryBytes, gpu } = this.#options.use ?? {};
    const shape = { parameters, bytesPerToken: 0 };
    if (profile === "cpu") return memoryShortage(cpuMemoryNeed(purpose, shape), availableMemoryBytes);
    return gpu === undefined ? undefined : planModel(gpu, shape, undefined, purpose).problem;
  }

  #show(bytes: number, total: number): void {
    const now = Date.now();
    if (bytes !== this.#bytes) this.#grownAt = now;
    this.#bytes = bytes;
    if (bytes < total && now - this.#shownAt < progressEveryMs) return;
    const seconds = (now - this.#shown.at) / 1000;
    const rate =
      this.#shownAt === 0 || seconds === 0
        ? ""
        : `, ${((bytes - this.#shown.bytes) / 1e6 / seconds).toFixed(1)} MB/s`;
    this.#shownAt = now;
    this.#shown = { at: now, bytes };
    const percent = total === 0 ? 100 : Math.floor((bytes / total) * 100);
    this.#options.onProgress(`model: ${readableSize(bytes)} of ${readableSize(total)} (${percent} %)${rate}`);
  }

  #stopWhenStalled(child: GuardedChild): void {
    const limitMs = this.#options.stallLimitMs ?? defaultStallLimitMs;
    if (this.#refusal !== undefined || Date.now() - this.#grownAt < limitMs) return;
    this.#refusal = this.#fail(
      `nothing of it arrived for ${limitMs / 1000} s`,
      "try again; what was fetched so far is kept",
    );
    void child.stop();
  }

  #fail(what: string, remedy: string): AglError {
    return new AglError("configuration", `model ${this.#hub.name}: ${what}`, { remedy });
  }
}

function bytesIn(folder: string): number {
  if (!existsSync(folder)) return 0;
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
}
