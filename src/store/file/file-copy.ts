import { Database } from "bun:sqlite";
import { closeSync, existsSync, fsyncSync, openSync, renameSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { AglError } from "../../errors.ts";
import { bytesInUse, freeBytesBeside, megabytes } from "./file-space.ts";

/**
 * A copy of the file beside it, complete and on disk when this returns: `agl.db.v1.backup` for a file of version 1.
 * An older copy is never written over.
 */
export function copyBeforeMigration(
  db: Database,
  path: string,
  { version, freeBytes = freeBytesBeside }: { version: number; freeBytes?: (path: string) => number },
): string {
  requireSpace(db, path, freeBytes(path));
  const copy = freeName(`${path}.v${version}.backup`);
  const partial = `${copy}.partial`;
  rmSync(partial, { force: true });
  try {
    db.run("VACUUM INTO ?", [partial]);
    releaseCopy(partial);
    syncFile(partial);
    renameSync(partial, copy);
    syncFile(dirname(copy));
  } catch (error) {
    rmSync(partial, { force: true });
    throw error;
  }
  return copy;
}

/** Free bytes that a migration needs: the copy, the new tables, and the log that holds them until they are committed. */
const spaceFactor = 3;

function requireSpace(db: Database, path: string, free: number): void {
  const needed = bytesInUse(db) * spaceFactor;
  if (free >= needed) return;
  throw new AglError(
    "store",
    `${path} has to be brought up to date, which needs ${megabytes(needed)} of free space, and there are ${megabytes(free)}`,
    {
      remedy: "make room on that disk, or move the file to another one; nothing was changed",
    },
  );
}

function freeName(name: string): string {
  for (let number = 1; ; number += 1) {
    const candidate = number === 1 ? name : `${name}-${number}`;
    if (!existsSync(candidate)) return candidate;
  }
}

/** The copy is nobody's. */
function releaseCopy(copy: string): void {
  const db = new Database(copy);
  try {
    db.run("DELETE FROM holder");
  } finally {
    db.close();
  }
}

function syncFile(path: string): void {
  const file = openSync(path, "r");
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
