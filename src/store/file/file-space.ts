import type { Database } from "bun:sqlite";
import { statfsSync } from "node:fs";
import { dirname } from "node:path";

/** On the disk where the file lies. */
export function freeBytesBeside(path: string): number {
  const { bsize, bavail } = statfsSync(dirname(path));
  return bsize * bavail;
}

/** Of the database without its free pages, what is still in the log included. */
export function bytesInUse(db: Database): number {
  const value = (name: string) =>
    Object.values(db.query<Record<string, number>, []>(`PRAGMA ${name}`).get()!)[0]!;
  return (value("page_count") - value("freelist_count")) * value("page_size");
}

export function megabytes(bytes: number): string {
  return bytes < 10e6 ? `${(bytes / 1e6).toFixed(1)} MB` : `${Math.ceil(bytes / 1e6)} MB`;
}
