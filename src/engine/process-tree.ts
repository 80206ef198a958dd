import { dlopen, FFIType } from "bun:ffi";
import { readdirSync, readFileSync } from "node:fs";

const PR_SET_CHILD_SUBREAPER = 36;

/**
 * On Linux, orphaned descendants come back to this process instead of to init, so a walk from here finds all of them.
 * Elsewhere nothing happens and only the process group is known.
 */
export function adoptOrphans(): void {
  if (process.platform !== "linux") return;
  try {
    const libc = dlopen("libc.so.6", {
      prctl: {
        args: [FFIType.i32, FFIType.u64, FFIType.u64, FFIType.u64, FFIType.u64],
        returns: FFIType.i32,
      },
    });
    libc.symbols.prctl(PR_SET_CHILD_SUBREAPER, 1n, 0n, 0n, 0n);
  } catch {
    // musl and others name their libc differently; the group is still ended.
  }
}

/** Pids of all living descendants, zombies left out. Empty where there is no /proc. */
export function descendantsOf(root: number): number[] {
  const children = new Map<number, number[]>();
  for (const { pid, parent } of livingProcesses()) {
    const siblings = children.get(parent);
    if (siblings) siblings.push(pid);
    else children.set(parent, [pid]);
  }
  const found: number[] = [];
  const queue = [root];
  for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
    for (const child of children.get(next) ?? []) {
      found.push(child);
      queue.push(child);
    }
  }
  return found;
}

/** Sends a signal to a process or, with a negative number, to a group; false when there is none. */
export function signalProcess(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(pid, signal);
    return true;
  } catch {
    return false;
  }
}

function livingProcesses(): { pid: number; parent: number }[] {
  let names: string[];
  try {
    names = readdirSync("/proc");
  } catch {
    return [];
  }
  const found: { pid: number; parent: number }[] = [];
  for (const name of names) {
    const pid = Number(name);
    if (!Number.isInteger(pid)) continue;
    const stat = readStat(pid);
    if (stat !== undefined && stat.state !== "Z") found.push({ pid, parent: stat.parent });
  }
  return found;
}

function readStat(pid: number): { state: string; parent: number } | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    // The name in brackets may itself hold blanks and brackets.
    const [state, parent] = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return state === undefined || parent === undefined ? undefined : { state, parent: Number(parent) };
  } catch {
    return undefined;
  }
}
