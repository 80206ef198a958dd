import { CauseFinder } from "./cause.ts";
import { type ChildExit, describeExit, spawnGuarded } from "./child.ts";

export interface ProgramRun {
  exit: ChildExit;
  stdout: string[];
  stderr: string[];
}

/**
 * Runs a program to its end, or to its limit, under a guard; aborting the signal ends it and everything it started.
 */
export async function runProgram(
  command: string[],
  options: {
    cwd: string;
    env: Record<string, string>;
    signal: AbortSignal;
    onLine?: (line: string) => void;
    timeoutMs: number;
  },
): Promise<ProgramRun> {
  options.signal.throwIfAborted();
  const lines = { stdout: [] as string[], stderr: [] as string[] };
  const child = spawnGuarded(command, {
    cwd: options.cwd,
    env: options.env,
    graceMs: 2_000,
    onLine: (line, stream) => {
      lines[stream].push(line);
      if (stream === "stderr") options.onLine?.(line);
    },
  });
  const stop = () => void child.stop();
  options.signal.addEventListener("abort", stop, { once: true });
  const timer = setTimeout(stop, options.timeoutMs);
  try {
    const exit = await child.exited;
    options.signal.throwIfAborted();
    return { exit, ...lines };
  } finally {
    clearTimeout(timer);
    options.signal.removeEventListener("abort", stop);
  }
}

/** Why it failed: the error among its lines, else how it ended. */
export function causeOf({ exit }: ProgramRun, lines: readonly string[]): string {
  const cause = new CauseFinder();
  for (const line of lines) cause.see(line);
  return cause.cause() ?? describeExit(exit);
}
