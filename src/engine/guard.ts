import { constants } from "node:os";
import { adoptOrphans, descendantsOf, signalProcess } from "./process-tree.ts";

const pollMs = 20;
const killLimitMs = 2_000;
/** Without a parent there is nobody left to hand results to. */
const orphanGraceMs = 2_000;
/** As a shell says it. */
const notFoundExitCode = 127;

/**
 * `agl __guard GRACE_MS CMD…`: runs a command in a session of its own and ends all of its descendants when the
 * command exits, on SIGTERM, and when stdin closes, which happens however the parent dies. Bytes on stdin go on to the command.
 * SIGINT and SIGHUP of the terminal are left to the parent to answer.
 */
export async function runGuard(graceMs: number, command: string[]): Promise<number> {
  adoptOrphans();
  process.on("SIGINT", () => {});
  process.on("SIGHUP", () => {});
  const child = start(command);
  if (child === undefined) return notFoundExitCode;
  let ending: Promise<void> | undefined;
  let killAt = Number.POSITIVE_INFINITY;
  /** A later call may shorten the grace of an earlier one, not lengthen it. */
  const end = (limitMs: number) => {
    killAt = Math.min(killAt, Date.now() + limitMs);
    return (ending ??= endTree(child.pid, () => Date.now() >= killAt));
  };
  process.on("SIGTERM", () => void end(graceMs));
  void forward(child.stdin).then(() => {
    void child.stdin.end();
    void end(Math.min(graceMs, orphanGraceMs));
  });
  await child.exited;
  await end(0);
  return exitCodeOf(child.exitCode, child.signalCode as NodeJS.Signals | null);
}

function start(command: string[]): Bun.Subprocess<"pipe", "inherit", "inherit"> | undefined {
  try {
    return Bun.spawn(command, {
      stdin: "pipe",
      stdout: "inherit",
      stderr: "inherit",
      // Whoever started the guard has already reduced the environment.
      env: process.env,
      detached: true,
    });
  } catch (error) {
    process.stderr.write(`error: ${command[0]}: ${error instanceof Error ? error.message : String(error)}\n`);
    return undefined;
  }
}

async function forward(stdin: { write(chunk: Uint8Array): unknown; flush(): unknown }): Promise<void> {
  for await (const chunk of Bun.stdin.stream()) {
    try {
      stdin.write(chunk);
      await stdin.flush();
    } catch {
      // The command has closed its stdin; ours must still be read to see the parent's end.
    }
  }
}

async function endTree(group: number, isGraceOver: () => boolean): Promise<void> {
  const alive = () => descendantsOf(process.pid);
  // Once and to the group only: a second SIGTERM means "at once" to many programs, and what the command
  // started in sessions of its own it may still need while it ends.
  signalProcess(-group, "SIGTERM");
  while (alive().length > 0 && !isGraceOver()) await Bun.sleep(pollMs);
  const killed = await until(() => {
    signalProcess(-group, "SIGKILL");
    const left = alive();
    for (const pid of left) signalProcess(pid, "SIGKILL");
    return left.length === 0;
  }, killLimitMs);
  if (!killed) process.stderr.write(`guard: processes that could not be ended: ${alive().join(", ")}\n`);
}

async function until(done: () => boolean, limitMs: number): Promise<boolean> {
  const deadline = Date.now() + limitMs;
  while (!done()) {
    if (Date.now() >= deadline) return false;
    await Bun.sleep(pollMs);
  }
  return true;
}

function exitCodeOf(code: number | null, signal: NodeJS.Signals | null): number {
  if (code !== null) return code;
  return 128 + (signal === null ? 0 : (constants.signals[signal] ?? 0));
}
