import { tmpdir } from "node:os";
import { CauseFinder } from "./cause.ts";
import { childEnvironment } from "./child-environment.ts";
import { describeExit } from "./child.ts";
import { runUv } from "./uv.ts";

export interface Gpu {
  name: string;
  driver: string;
  totalBytes: number;
  freeBytes: number;
}

export type GpuAnswer =
  { kind: "absent" } | { kind: "failed"; message: string } | { kind: "found"; gpus: [Gpu, ...Gpu[]] };

const fields = "name,driver_version,memory.total,memory.free";
const defaultLimitMs = 15_000;
const mebibyte = 2 ** 20;

/** What nvidia-smi says about the GPUs; `absent` when there is none on PATH, or it knows of no GPU. */
export async function findGpus(
  signal: AbortSignal,
  {
    env = childEnvironment(),
    limitMs = defaultLimitMs,
  }: { env?: Record<string, string>; limitMs?: number } = {},
): Promise<GpuAnswer> {
  const program = Bun.which("nvidia-smi", { PATH: env["PATH"] ?? "" });
  if (program === null) return { kind: "absent" };
  const command = [program, `--query-gpu=${fields}`, "--format=csv,noheader,nounits"];
  const { exit, stdout, stderr } = await runUv(command, { cwd: tmpdir(), env, signal, timeoutMs: limitMs });
  const lines = [...stdout, ...stderr];
  if (lines.some((line) => /no devices were found/i.test(line))) return { kind: "absent" };
  if (exit.stopped) return { kind: "failed", message: `no answer within ${limitMs / 1000} s` };
  if (exit.code !== 0) {
    const cause = new CauseFinder();
    for (const line of lines) cause.see(line);
    return { kind: "failed", message: cause.cause() ?? describeExit(exit) };
  }
  const [first, ...others] = stdout.map(parseGpu).filter((gpu) => gpu !== undefined);
  return first === undefined ? { kind: "absent" } : { kind: "found", gpus: [first, ...others] };
}

function parseGpu(line: string): Gpu | undefined {
  const [name, driver, total, free] = line.split(",").map((field) => field.trim());
  const [totalBytes, freeBytes] = [Number(total) * mebibyte, Number(free) * mebibyte];
  if (name === undefined || driver === undefined || !Number.isFinite(totalBytes)) return undefined;
  return { name, driver, totalBytes, freeBytes: Number.isFinite(freeBytes) ? freeBytes : totalBytes };
}
