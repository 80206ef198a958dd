import { appendFileSync, mkdirSync } from "node:fs";
import { constants } from "node:os";
import { dirname } from "node:path";
import { selfCommand } from "../self.ts";
import type { CauseFinder } from "./cause.ts";

export interface ChildExit {
  code: number | null;
  signal: string | null;
  /** True when `stop` was called before the exit. */
  stopped: boolean;
  durationMs: number;
}

export interface GuardedChild {
  /** Of the guard; the command itself is its only child. */
  readonly pid: number;
  readonly exited: Promise<ChildExit>;
  /** Last lines of stdout and stderr, oldest first. */
  tail(): string[];
  /** Sends text to the command's stdin. */
  write(text: string): void;
  /** SIGTERM to the whole tree, SIGKILL after the grace, then the exit. Repeated calls share one stop. */
  stop(): Promise<ChildExit>;
}

export interface SpawnOptions {
  cwd?: string;
  env: Record<string, string>;
  /** Everything the command prints is appended here. */
  logFile?: string;
  onLine?: (line: string, stream: "stdout" | "stderr") => void;
  /** Time between SIGTERM and SIGKILL; 10 s by default. */
  graceMs?: number;
}

const tailLines = 400;
const maxLineLength = 64 * 1024;

/** Starts a command under a guard that ends its whole process tree when this process dies, however it dies. */
export function spawnGuarded(command: string[], options: SpawnOptions): GuardedChild {
  const started = Date.now();
  const graceMs = options.graceMs ?? 10_000;
  if (options.logFile !== undefined) mkdirSync(dirname(options.logFile), { recursive: true });
  const guard = Bun.spawn(selfCommand(["__guard", String(graceMs), ...command]), {
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    env: options.env,
    stdin: "pipe",
    stdout: "pipe",
    stderr: "pipe",
  });
  const tail: string[] = [];
  const take = (stream: "stdout" | "stderr") => (line: string) => {
    tail.push(line);
    if (tail.length > tailLines) tail.shift();
    if (options.logFile !== undefined) appendFileSync(options.logFile, line + "\n");
    options.onLine?.(line, stream);
  };
  const reading = [readLines(guard.stdout, take("stdout")), readLines(guard.stderr, take("stderr"))];
  let stopped = false;
  const exited = guard.exited.then(async (): Promise<ChildExit> => {
    await Promise.race([Promise.all(reading), Bun.sleep(1_000)]);
    return {
      ...exitOf(guard.exitCode, guard.signalCode as string | null),
      stopped,
      durationMs: Date.now() - started,
    };
  });
  return {
    pid: guard.pid,
    exited,
    tail: () => [...tail],
    write(text) {
      guard.stdin.write(text);
      void guard.stdin.flush();
    },
    stop() {
      stopped = true;
      guard.kill("SIGTERM");
      return exited;
    },
  };
}

/** What is worth saying of an exit that nobody asked for: the error that was printed, or what its kind suggests. */
export function explainExit(exit: ChildExit, cause: CauseFinder): string | undefined {
  // Whoever is killed says nothing more, and what it said last has nothing to do with it.
  if (exit.signal === "SIGKILL") return cause.error() ?? "most likely for want of memory";
  return cause.cause();
}

/** `exit code 1`, `signal SIGKILL`: for messages. */
export function describeExit(exit: ChildExit): string {
  return exit.signal === null ? `exit code ${exit.code}` : `signal ${exit.signal}`;
}

async function readLines(stream: ReadableStream<Uint8Array>, take: (line: string) => void): Promise<void> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split(/\r?\n|\r/);
    rest = lines.pop() ?? "";
    for (const line of lines) take(line.slice(0, maxLineLength));
    if (rest.length > maxLineLength) {
      take(rest);
      rest = "";
    }
  }
  if (rest !== "") take(rest);
}

function exitOf(code: number | null, signal: string | null): { code: number | null; signal: string | null } {
  if (code === null || code <= 128) return { code, signal };
  const name = Object.entries(constants.signals).find(([, number]) => number === code - 128)?.[0];
  return name === undefined ? { code, signal: null } : { code: null, signal: name };
}
