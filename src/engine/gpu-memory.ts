import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename } from "node:path";
import { AglError } from "../errors.ts";
import { childEnvironment } from "./child-environment.ts";
import { firstVisibleGpu } from "./gpu.ts";
import { runProgram } from "./run-program.ts";

export interface GpuHolder {
  pid: number;
  name: string;
  bytes: number;
}

export interface GpuMemoryUse {
  usedBytes: number;
  freeBytes: number;
  /** Processes that hold memory, the largest first; empty also where the driver does not show them. */
  holders: GpuHolder[];
}

export interface GpuMemoryOptions {
  /** How long memory is waited for. */
  limitMs: number;
  say: (line: string) => void;
  signal: AbortSignal;
  env?: Record<string, string>;
  pollMs?: number;
  sayEveryMs?: number;
}

const mebibyte = 2 ** 20;
const answerLimitMs = 15_000;
/** Less than this is no model: a context that closes, or rounding. */
const toleratedBytes = 256 * mebibyte;
/** What a sleeping engine may keep where the driver does not say who holds what; 827 to 851 MiB were seen. */
const unseenKeptBytes = 2_048 * mebibyte;

/** Who uses how much of the GPU, as nvidia-smi says it. Memory of a process that ended comes back seconds later. */
export class GpuMemory {
  readonly #options: GpuMemoryOptions;
  readonly #program: string | null;
  readonly #env: Record<string, string>;
  /** Of others, before anything of ours was there. */
  #before: GpuMemoryUse = { usedBytes: 0, freeBytes: 0, holders: [] };

  constructor(options: GpuMemoryOptions) {
    this.#options = options;
    this.#env = options.env ?? childEnvironment();
    this.#program = Bun.which("nvidia-smi", { PATH: this.#env["PATH"] ?? "" });
  }

  /** Remembers what others use now: that is never waited for. */
  async rememberOthers(): Promise<void> {
    const use = await this.read();
    if (use === undefined) this.#options.say("gpu: nvidia-smi gives no answer, so its memory is not watched");
    else this.#before = use;
  }

  /** Undefined when nvidia-smi is missing or does not answer. */
  async read(): Promise<GpuMemoryUse | undefined> {
    const memory = await this.#ask("--query-gpu=memory.used,memory.free");
    const processes = await this.#ask("--query-compute-apps=pid,process_name,used_memory");
    const [used, free] = (memory?.[0] ?? "").split(",").map(Number);
    if (used === undefined || free === undefined || Number.isNaN(used) || Number.isNaN(free))
      return undefined;
    const holders = (processes ?? []).map(parseHolder).filter((holder) => holder !== undefined);
    holders.sort((a, b) => b.bytes - a.bytes);
    return { usedBytes: used * mebibyte, freeBytes: free * mebibyte, holders };
  }

  /** Waits until only `keepers` and those who were there before hold memory; names who holds it when they do not let go. */
  async untilFree(keepers: () => number[]): Promise<GpuMemoryUse | undefined> {
    const { limitMs, say, signal, pollMs = 500, sayEveryMs = 5_000 } = this.#options;
    const started = performance.now();
    let lastLine = Number.NEGATIVE_INFINITY;
    for (;;) {
      const use = await this.read();
      if (use === undefined) return undefined;
      const kept = keepers();
      const overBytes = use.usedBytes - this.#before.usedBytes - bytesKept(use, kept);
      if (overBytes <= toleratedBytes) return use;
      const waitedMs = performance.now() - started;
      const culprits = this.#culprits(use, kept);
      if (waitedMs >= limitMs) throw notFreed(overBytes, culprits, limitMs);
      if (waitedMs - lastLine >= sayEveryMs) {
        lastLine = waitedMs;
        const seconds = (waitedMs / 1000).toFixed(0);
        say(
          `gpu: waiting for memory, ${gigabytes(overBytes)} still used by ${names(culprits)}, ${seconds} s`,
        );
      }
      await Bun.sleep(pollMs);
      signal.throwIfAborted();
    }
  }

  #culprits({ holders }: GpuMemoryUse, keepers: number[]): GpuHolder[] {
    const before = new Map(this.#before.holders.map(({ pid, bytes }) => [pid, bytes]));
    return holders.filter(
      ({ pid, bytes }) => !keepers.includes(pid) && bytes > (before.get(pid) ?? 0) + toleratedBytes / 4,
    );
  }

  /** The lines of one query about the first GPU that CUDA is allowed to see. */
  async #ask(query: string): Promise<string[] | undefined> {
    if (this.#program === null) return undefined;
    const command = [
      this.#program,
      "-i",
      firstVisibleGpu(this.#env) || "0",
      query,
      "--format=csv,noheader,nounits",
    ];
    const { signal } = this.#options;
    const { exit, stdout } = await runProgram(command, {
      cwd: tmpdir(),
      env: this.#env,
      signal,
      timeoutMs: answerLimitMs,
    });
    return exit.code === 0 ? stdout : undefined;
  }
}

/** `123, /usr/bin/python3, 518`: a name may hold commas, and the number may be `[N/A]`. */
function parseHolder(line: string): GpuHolder | undefined {
  const match = /^\s*(\d+),\s*(.*),\s*(\S+)\s*$/.exec(line);
  if (match === null) return undefined;
  const [, pid, name, used] = match;
  const bytes = Number(used) * mebibyte;
  return Number.isFinite(bytes)
    ? { pid: Number(pid), name: shortName(Number(pid), name ?? ""), bytes }
    : undefined;
}

function shortName(pid: number, name: string): string {
  if (!name.startsWith("[")) return basename(name) || name;
  // Of another user, or in another container.
  try {
    return readFileSync(`/proc/${pid}/comm`, "utf8").trim();
  } catch {
    return "unknown";
  }
}

function bytesKept({ holders, usedBytes }: GpuMemoryUse, keepers: number[]): number {
  if (keepers.length === 0) return 0;
  if (holders.length === 0) return Math.min(usedBytes, unseenKeptBytes);
  return holders.filter(({ pid }) => keepers.includes(pid)).reduce((sum, { bytes }) => sum + bytes, 0);
}

function notFreed(overBytes: number, culprits: GpuHolder[], limitMs: number): AglError {
  const who =
    culprits.length === 0
      ? "a process that nvidia-smi does not show"
      : culprits
          .map(({ pid, name, bytes }) => `pid ${pid} (${name}) with ${mebibytes(bytes)} MiB`)
          .join(", ");
  return new AglError(
    "engine",
    `the GPU's memory did not become free within ${limitMs / 1000} s: ${mebibytes(overBytes)} MiB are still held by ${who}`,
    { remedy: "end what holds it, or raise engine.memory_wait_seconds" },
  );
}

function names(culprits: GpuHolder[]): string {
  if (culprits.length === 0) return "a process that nvidia-smi does not show";
  return culprits.map(({ pid, name }) => `pid ${pid} (${name})`).join(", ");
}

function gigabytes(bytes: number): string {
  return `${(bytes / 1e9).toFixed(1)} GB`;
}

export function mebibytes(bytes: number): number {
  return Math.round(bytes / mebibyte);
}
