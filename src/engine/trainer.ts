import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { AglError } from "../errors.ts";
import { CauseFinder } from "./cause.ts";
import { childEnvironment } from "./child-environment.ts";
import { type ChildExit, describeExit, type GuardedChild, spawnGuarded } from "./child.ts";
import type { Quantization } from "./gpu-serving.ts";
import { descendantsOf } from "./process-tree.ts";
import type { Profile } from "./profile.ts";
import { type TrainProgress, TrainerProgressFile, type TrainResult } from "./trainer-progress.ts";

export type { TrainProgress, TrainResult };

/** As `trainer/job.py` reads it. */
export interface TrainJob {
  base: string;
  /** Made by the trainer; must not exist, or be empty. */
  output: string;
  /** JSONL file of `{input_ids, attention_mask, labels, reward}`. */
  rows: string;
  profile: Profile;
  seed: number;
  max_length: number;
  hyper: TrainHyperParameters;
  threads: number;
  /** JSONL file that the trainer appends to. */
  progress: string;
  /** How the engine serves the weights, so that the trainer measures them likewise. */
  quantization?: Quantization;
  /** Save the LoRA adapter by itself, too, in the output's folder `adapter`. */
  keep_adapter?: boolean;
}

export interface TrainHyperParameters {
  lora_r: number;
  lora_alpha: number;
  lora_dropout: number;
  learning_rate: number;
  weight_decay: number;
  warmup_steps: number;
  schedule: string;
  batch_size: number;
  accumulation: number;
  epochs: number;
  max_steps: number | null;
  optimizer: string;
}

export interface TrainerOptions {
  python: string;
  /** trainer/sft.py */
  script: string;
  /** Its working directory; caches that libraries make go here. */
  workFolder: string;
  logFile: string;
  /** What the early imports are for; `cpu` by default. */
  profile?: Profile;
  /** Of one training, from the job to the exit; 600 s by default. */
  timeoutMs?: number;
  env?: Record<string, string>;
  signal: AbortSignal;
  onProgress?: (progress: TrainProgress) => void;
}

export interface Trainer {
  /** Once per trainer: its process ends with the job. */
  train(job: TrainJob): Promise<TrainResult>;
  /** Pids of its processes; none after its end. */
  readonly processes: number[];
  /** Ends the process if it is still there. */
  stop(): Promise<void>;
}

const progressPollMs = 200;
const stopGraceMs = 10_000;

/** Starts a trainer that imports its libraries at once and waits for its job, so that rollouts can run meanwhile. */
export function startTrainer(options: TrainerOptions): Trainer {
  return new TrainerProcess(options);
}

class TrainerProcess implements Trainer {
  readonly #options: TrainerOptions;
  readonly #child: GuardedChild;
  readonly #cause = new CauseFinder();
  #used = false;
  #exit: ChildExit | undefined;

  constructor(options: TrainerOptions) {
    this.#options = options;
    mkdirSync(options.workFolder, { recursive: true });
    this.#child = spawnGuarded(
      [options.python, options.script, "--prewarm", "--profile", options.profile ?? "cpu"],
      {
        cwd: options.workFolder,
        env: childEnvironment({
          ...trainerEnvironment,
          // What Unsloth compiles: one folder a run, not the working directory of whoever comes.
          UNSLOTH_COMPILE_LOCATION: join(options.workFolder, "unsloth-cache"),
          ...options.env,
        }),
        logFile: options.logFile,
        onLine: (line) => this.#cause.see(line),
        graceMs: stopGraceMs,
      },
    );
    const stop = () => void this.stop();
    options.signal.addEventListener("abort", stop, { once: true });
    void this.#child.exited.then((exit) => {
      this.#exit = exit;
      options.signal.removeEventListener("abort", stop);
    });
  }

  get processes(): number[] {
    return this.#exit === undefined ? [this.#child.pid, ...descendantsOf(this.#child.pid)] : [];
  }

  async train(job: TrainJob): Promise<TrainResult> {
    if (this.#used) throw new Error("a trainer trains once");
    this.#used = true;
    const { signal, workFolder, timeoutMs = 600_000 } = this.#options;
    signal.throwIfAborted();
    rmSync(job.progress, { force: true });
    const jobFile = join(workFolder, `trainer-job-${this.#child.pid}.json`);
    writeFileSync(jobFile, JSON.stringify(job, null, 1) + "\n");
    this.#child.write(`${jobFile}\n`);
    const outcome = await this.#follow(job, Date.now() + timeoutMs);
    if (outcome === "timeout") {
      await this.stop();
      throw this.#failure(
        `the training took longer than ${timeoutMs / 1000} s`,
        "raise trainer.timeout_seconds",
      );
    }
    signal.throwIfAborted();
    if (outcome.result !== undefined && outcome.exit.code === 0) return outcome.result;
    throw this.#failure(`the training failed: ${this.#reason(outcome.error, outcome.exit)}`);
  }

  async stop(): Promise<void> {
    if (this.#exit === undefined) await this.#child.stop();
  }

  async #follow(job: TrainJob, deadline: number): Promise<Outcome | "timeout"> {
    const file = new TrainerProgressFile(job.progress, (line) => this.#cause.see(line));
    let result: TrainResult | undefined;
    let error: string | undefined;
    for (;;) {
      // Looked at before the file, so that the last lines are read after the exit.
      const exit = this.#exit;
      for (const line of file.read()) {
        if (line.kind === "progress") this.#options.onProgress?.(line);
        else if (line.kind === "result") result = line;
        else if (line.kind === "error") error = line.message;
      }
      if (exit !== undefined) return { exit, result, error };
      const left = deadline - Date.now();
      if (left <= 0) return "timeout";
      await Promise.race([this.#child.exited, Bun.sleep(Math.min(progressPollMs, left))]);
    }
  }

  #reason(error: string | undefined, exit: ChildExit): string {
    if (error !== undefined) return error;
    if (exit.signal === "SIGKILL" && !exit.stopped)
      return "it was killed (SIGKILL), most likely for want of memory";
    const { python } = this.#options;
    if (python.includes("/") && !existsSync(python)) return `${python} does not exist`;
    if (exit.code === 0) return "it ended without a result";
    return this.#cause.cause() ?? describeExit(exit);
  }

  #failure(message: string, remedy?: string): AglError {
    const log = `its log is ${this.#options.logFile}`;
    return new AglError("trainer", message, { remedy: remedy === undefined ? log : `${remedy}; ${log}` });
  }
}

interface Outcome {
  exit: ChildExit;
  result: TrainResult | undefined;
  error: string | undefined;
}

const trainerEnvironment = {
  PYTHONUNBUFFERED: "1",
  HF_HUB_OFFLINE: "1",
  TRANSFORMERS_OFFLINE: "1",
  DO_NOT_TRACK: "1",
  UNSLOTH_DISABLE_STATISTICS: "1",
};
