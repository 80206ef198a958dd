import { readdirSync, readFileSync } from "node:fs";

/** Whether a process is there and not a zombie. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    return stat.slice(stat.lastIndexOf(")") + 2, stat.lastIndexOf(")") + 3) !== "Z";
  } catch {
    return false;
  }
}

/** Living processes with a text in their command line. */
export function processesWith(text: string): number[] {
  return readdirSync("/proc")
    .map(Number)
    .filter(
      (pid) => Number.isInteger(pid) && pid !== process.pid && commandOf(pid).includes(text) && isAlive(pid),
    );
}

/** Waits for a condition; false when it did not come true in time. */
export async function eventually(
  condition: () => boolean | Promise<boolean>,
  limitMs = 10_000,
): Promise<boolean> {
  const deadline = performance.now() + limitMs;
  while (!(await condition())) {
    if (performance.now() > deadline) return false;
    await Bun.sleep(20);
  }
  return true;
}

/** Waits until the condition holds; fails with `what` after the limit. */
export async function until(
  what: string,
  holds: () => boolean | Promise<boolean>,
  limitMs = 10_000,
): Promise<void> {
  if (!(await eventually(holds, limitMs))) throw new Error(`not within ${limitMs} ms: ${what}`);
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}
