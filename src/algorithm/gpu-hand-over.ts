import { type GpuMemory, mebibytes } from "../engine/gpu-memory.ts";
import type { EngineCheckpoint, VllmEngine } from "../engine/vllm.ts";
import { messageOf } from "../errors.ts";

/** MiB of the GPU in use at each point of one hand-over; a point is left out when nvidia-smi gave no answer. */
export interface GpuReadings {
  /** Before the engine left. */
  serving?: number;
  /** With the engine asleep, or stopped, and nothing else there. */
  asleep?: number;
  /** The most that the trainer's tensors took, by its own count. */
  trainer_peak?: number;
  /** With the trainer gone. */
  after_trainer?: number;
  /** With the new weights served. */
  awake?: number;
}

export interface GpuHandOverOptions {
  vllm: VllmEngine;
  memory: GpuMemory;
  between: "swap" | "restart";
  signal: AbortSignal;
  say: (line: string) => void;
}

/** One GPU used by turns: the engine leaves it to the trainer and takes it back. */
export class GpuHandOver {
  readonly #options: GpuHandOverOptions;
  #readings: GpuReadings = {};

  constructor(options: GpuHandOverOptions) {
    this.#options = options;
  }

  /** Before the engine's first start. */
  async begin(): Promise<void> {
    await this.#options.memory.rememberOthers();
  }

  /** Returns when only `waiting` processes of ours and those of before hold memory. */
  async toTrainer(waiting: () => number[]): Promise<void> {
    const { vllm, memory } = this.#options;
    this.#readings = {};
    if (vllm.state === "ready") {
      await this.#note("serving");
      await this.#leave();
    }
    const use = await memory.untilFree(() => [...vllm.processes, ...waiting()]);
    if (use !== undefined) this.#readings.asleep = mebibytes(use.usedBytes);
  }

  /** After the trainer's exit; returns when its memory is free. */
  async trainerEnded(peakBytes: number | undefined): Promise<void> {
    const { vllm, memory } = this.#options;
    if (peakBytes !== undefined) this.#readings.trainer_peak = mebibytes(peakBytes);
    const use = await memory.untilFree(() => vllm.processes);
    if (use !== undefined) this.#readings.after_trainer = mebibytes(use.usedBytes);
  }

  /** Wakes the engine with the new weights; starts it where that is impossible. */
  async toEngine(checkpoint: EngineCheckpoint): Promise<"swap" | "restart"> {
    const method = await this.#return(checkpoint);
    await this.#note("awake");
    return method;
  }

  get readings(): GpuReadings {
    return this.#readings;
  }

  async #leave(): Promise<void> {
    const { vllm, between, signal, say } = this.#options;
    if (between === "restart") return await vllm.stop();
    try {
      await vllm.sleep();
      if (!(await this.#memoryIsKept())) return;
      say("the engine sleeps but keeps its memory; stopping it for the training");
    } catch (error) {
      if (signal.aborted) throw error;
      say(`the engine cannot sleep (${messageOf(error)}); stopping it for the training`);
    }
    await vllm.stop();
  }

  /** Whether the sleeping engine still has more than half of what was in use. */
  async #memoryIsKept(): Promise<boolean> {
    const serving = this.#readings.serving;
    const use = await this.#options.memory.read();
    if (serving === undefined || use === undefined) return false;
    const own = this.#options.vllm.processes;
    const kept = use.holders
      .filter(({ pid }) => own.includes(pid))
      .reduce((sum, { bytes }) => sum + bytes, 0);
    return mebibytes(kept) > serving / 2;
  }

  async #return(checkpoint: EngineCheckpoint): Promise<"swap" | "restart"> {
    const { vllm, memory, signal, say } = this.#options;
    if (vllm.state === "failed") say("the engine ended while it slept; starting it again");
    if (vllm.state === "sleeping") {
      try {
        await vllm.wake(checkpoint);
        return "swap";
      } catch (error) {
        if (signal.aborted) throw error;
        say(`the engine could not be woken (${messageOf(error)}); restarting it`);
      }
      await vllm.stop();
      await memory.untilFree(() => []);
    }
    await vllm.start(checkpoint, signal);
    return "restart";
  }

  async #note(point: "serving" | "awake"): Promise<void> {
    const use = await this.#options.memory.read();
    if (use !== undefined) this.#readings[point] = mebibytes(use.usedBytes);
  }
}
