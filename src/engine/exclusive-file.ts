import { Database } from "bun:sqlite";
import { readFileSync, writeFileSync } from "node:fs";
import { AglError, messageOf } from "../errors.ts";

export interface ExclusiveFile {
  release(): void;
}

export interface ExclusiveOptions {
  signal: AbortSignal;
  /** Called once when someone else holds it; the pid where it is known. */
  onWait?: (holder: number | undefined) => void;
  timeoutMs: number;
}

const pollMs = 100;

/**
 * Holds a file until release, against other processes and other callers in this one. The lock is SQLite's: the
 * operating system drops it when its holder dies, however it dies, so there is none to be taken over.
 */
export async function holdExclusively(path: string, options: ExclusiveOptions): Promise<ExclusiveFile> {
  const deadline = Date.now() + options.timeoutMs;
  const database = new Database(path, { create: true });
  const holderFile = `${path}.holder`;
  let waiting = false;
  while (!tryLock(database)) {
    if (!waiting) options.onWait?.(readHolder(holderFile));
    waiting = true;
    if (options.signal.aborted || Date.now() > deadline) {
      database.close();
      options.signal.throwIfAborted();
      throw new AglError(
        "environment",
        `${path} was held by another process for ${options.timeoutMs / 1000} s`,
        { remedy: `end that process (its pid is in ${holderFile}), and try again` },
      );
    }
    await Bun.sleep(pollMs);
  }
  writeFileSync(holderFile, String(process.pid));
  return { release: () => database.close() };
}

function tryLock(database: Database): boolean {
  try {
    database.exec("BEGIN EXCLUSIVE");
    return true;
  } catch (error) {
    if (/locked|busy/i.test(messageOf(error))) return false;
    throw error;
  }
}

function readHolder(file: string): number | undefined {
  try {
    return Number.parseInt(readFileSync(file, "utf8"), 10) || undefined;
  } catch {
    return undefined;
  }
}
