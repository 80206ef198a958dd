import { readdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { isRunning, processState } from "../../living-process.ts";

const nameForm = /^(free|\d+-\d+)-([0-9a-f]{8})-(\d+)\.spool$/;

/**
 * The names of one proxy's files in a spool folder: `PID-START-RANDOM-NUMBER.spool`. A file whose process is dead, or
 * that was left by one that ended in order (`free-…`), belongs to whoever renames it first.
 */
export class SpoolFiles {
  readonly #folder: string;
  readonly #owner = `${process.pid}-${startOf(process.pid)}`;
  readonly #random = crypto.getRandomValues(new Uint8Array(4)).toHex();
  #next = 1;

  constructor(folder: string) {
    this.#folder = folder;
  }

  next(): string {
    return join(this.#folder, `${this.#owner}-${this.#random}-${this.#next++}.spool`);
  }

  /** Files that nobody living holds, oldest first. */
  abandoned(): string[] {
    return readdirSync(this.#folder)
      .map((name) => ({ name, parts: nameForm.exec(name) }))
      .filter(({ parts }) => parts !== null && !isHeld(parts[1] ?? ""))
      .sort((one, other) => Number(one.parts?.[3]) - Number(other.parts?.[3]))
      .map(({ name }) => join(this.#folder, name));
  }

  /** Undefined when another process was faster. */
  adopt(path: string): string | undefined {
    const own = this.next();
    try {
      renameSync(path, own);
      return own;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw error;
    }
  }

  /** For the next start, though this process may live on. */
  release(path: string): void {
    renameSync(path, join(this.#folder, `free-${this.#random}-${this.#next++}.spool`));
  }
}

function isHeld(owner: string): boolean {
  const [pid = 0, started = 0] = owner.split("-").map(Number);
  if (owner === "free") return false;
  return isRunning(pid) && startOf(pid) === started;
}

/** A pid may have passed to another process since. Clock ticks since boot; 0 where there is no /proc. */
function startOf(pid: number): number {
  return processState(pid)?.started ?? 0;
}
