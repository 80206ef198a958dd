import { readFileSync } from "node:fs";

/** What `/proc` says of a process; null where there is no such process, or no `/proc`. */
export interface ProcessState {
  /** Nothing of it runs any more; its parent has not asked for its exit code yet. */
  ended: boolean;
  /** Clock ticks between boot and its start, by which a pid that was given anew is told from the old one. */
  started: number;
}

export function processState(pid: number): ProcessState | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    // The name in brackets may itself hold blanks and brackets.
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    // While threads are left, of which each may still write, the first one may have ended.
    const ended = /^[ZX]$/.test(fields[0] ?? "") && Number(fields[17]) <= 1;
    return { ended, started: Number(fields[19]) };
  } catch {
    return null;
  }
}

/** Whether something of the process runs: one that was killed, and that nobody has waited for, holds nothing. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EPERM") return false;
  }
  return processState(pid)?.ended !== true;
}
