import { tmpdir } from "node:os";
import { childEnvironment } from "./child-environment.ts";
import { causeOf, type ProgramRun, runProgram } from "./run-program.ts";

export interface Gpu {
  name: string;
  driver: string;
  totalBytes: number;
  freeBytes: number;
  /** Compute capability: 9.0 of an H200; not known to old drivers. */
  capability?: number;
}

export type GpuAnswer =
  { kind: "absent" } | { kind: "failed"; message: string } | { kind: "found"; gpus: [Gpu, ...Gpu[]] };

const fields = "name,driver_version,memory.total,memory.free";
/** Values of CUDA_VISIBLE_DEVICES that hide every GPU. */
const noDevice = /^$|^-|^NoDevFiles$/;
const unknownField = /not a valid field/i;
const defaultLimitMs = 15_000;
const mebibyte = 2 ** 20;

/** The first GPU that CUDA is allowed to see, as it is named there; undefined when nothing is said. */
export function firstVisibleGpu(env: Record<string, string | undefined>): string | undefined {
  return env["CUDA_VISIBLE_DEVICES"]?.split(",")[0]?.trim();
}

/** What nvidia-smi says about the GPUs; `absent` when there is none on PATH, or it knows of no GPU. */
export async function findGpus(
  signal: AbortSignal,
  {
    env = childEnvironment(),
    limitMs = defaultLimitMs,
  }: { env?: Record<string, string>; limitMs?: number } = {},
): Promise<GpuAnswer> {
  const program = Bun.which("nvidia-smi", { PATH: env["PATH"] ?? "" });
  const visible = firstVisibleGpu(env);
  if (program === null || (visible !== undefined && noDevice.test(visible))) return { kind: "absent" };
  // Programs use the first visible GPU, and nvidia-smi takes no notice of what is visible.
  const selection = visible === undefined ? [] : [`--id=${visible}`];
  const ask = (asked: string) =>
    runProgram([program, `--query-gpu=${asked}`, "--format=csv,noheader,nounits", ...selection], {
      cwd: tmpdir(),
      env,
      signal,
      timeoutMs: limitMs,
    });
  let answer = await ask(`${fields},compute_cap`);
  if (linesOf(answer).some((line) => unknownField.test(line))) answer = await ask(fields);
  return readAnswer(answer, limitMs);
}

function linesOf({ stdout, stderr }: ProgramRun): string[] {
  return [...stdout, ...stderr];
}

function readAnswer(answer: ProgramRun, limitMs: number): GpuAnswer {
  const { exit, stdout } = answer;
  const lines = linesOf(answer);
  if (lines.some((line) => /no devices were found/i.test(line))) return { kind: "absent" };
  if (exit.stopped) return { kind: "failed", message: `no answer within ${limitMs / 1000} s` };
  if (exit.code !== 0) {
    return { kind: "failed", message: causeOf(answer, lines) };
  }
  const [first, ...others] = stdout.map(parseGpu).filter((gpu) => gpu !== undefined);
  return first === undefined ? { kind: "absent" } : { kind: "found", gpus: [first, ...others] };
}

function parseGpu(line: string): Gpu | undefined {
  const [name, driver, total, free, capability] = line.split(",").map((field) => field.trim());
  const [totalBytes, freeBytes] = [Number(total) * mebibyte, Number(free) * mebibyte];
  if (name === undefined || driver === undefined || !Number.isFinite(totalBytes)) return undefined;
  return {
    name,
    driver,
    totalBytes,
    freeBytes: Number.isFinite(freeBytes) ? freeBytes : totalBytes,
    ...(Number.isFinite(Number.parseFloat(capability ?? ""))
      ? { capability: Number.parseFloat(capability ?? "") }
      : {}),
  };
}
