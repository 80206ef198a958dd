import type { Database } from "bun:sqlite";
import { statSync } from "node:fs";
import type { Logger } from "../../log.ts";
import { bytesInUse, freeBytesBeside } from "./file-space.ts";
import { holderOf } from "./holder.ts";
import { choosePruned, deletePruned, describePruned, type PruneChoice, type PrunedGroup } from "../prune.ts";
import { closeStoreFile, openStoreFile } from "./store-file.ts";
import { openFileToRead } from "../store-reader.ts";

export interface PrunePreview {
  groups: PrunedGroup[];
  /** The process that has the file, and so stands in the way of deleting. */
  holder: number | undefined;
}

/** What would be deleted; changes nothing, and reads while another process has the file. */
export function previewPrune(path: string, choice: PruneChoice, now: number): PrunePreview {
  const db = openFileToRead(path);
  try {
    choosePruned(db, choice);
    return { groups: describePruned(db, now), holder: holderOf(db) };
  } finally {
    db.close();
  }
}

export interface PruneOutcome {
  rollouts: number;
  /** By which the file became smaller. */
  freedBytes: number;
  /** Inside the file, for what is written next: the disk had no room to rewrite it. */
  reusableBytes: number;
}

/** Refuses while another process has the file. */
export function pruneFile(path: string, choice: PruneChoice, log: Logger): PruneOutcome {
  openFileToRead(path).close();
  const { db } = openStoreFile(path, log);
  try {
    const sizeBefore = statSync(path).size;
    const rollouts = choosePruned(db, choice);
    deletePruned(db);
    if (rollouts > 0) giveSpaceBack(db, path, log);
    db.run("PRAGMA wal_checkpoint(TRUNCATE)");
    const { size } = statSync(path);
    return { rollouts, freedBytes: sizeBefore - size, reusableBytes: size - bytesInUse(db) };
  } finally {
    closeStoreFile(db, log);
  }
}

/** What stays is written twice while the file is rewritten: to a temporary file, and to the log. */
function giveSpaceBack(db: Database, path: string, log: Logger): void {
  if (freeBytesBeside(path) < bytesInUse(db) * 2) return;
  try {
    db.run("VACUUM");
  } catch (error) {
    log.warning("the freed space stays inside the file", { path, error: (error as Error).message });
  }
}
