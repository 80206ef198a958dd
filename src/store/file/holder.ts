import type { Database } from "bun:sqlite";
import { readFileSync } from "node:fs";
import { AglError } from "../../errors.ts";
import { isRunning, processState } from "../../living-process.ts";

interface Holder {
  pid: number;
  started: string | null;
}

export interface Claim {
  /** An earlier holder died without releasing the file. */
  uncleanStop: boolean;
  /** Since then the machine was started anew, or that is not known. */
  machineRestarted: boolean;
}

/**
 * Takes the file for this process, or refuses with the holder's pid. The check and the claim are one
 * immediate transaction, so of two processes that start together one wins.
 */
export function claimFile(db: Database, path: string): Claim {
  const claim = db.transaction((): Claim => {
    db.run("CREATE TABLE IF NOT EXISTS holder (pid INTEGER NOT NULL, started TEXT)");
    const holder = db.query<Holder, []>("SELECT pid, started FROM holder").get();
    if (holder !== null && isAlive(holder)) throw inUse(path, holder.pid);
    db.run("DELETE FROM holder");
    const started = startOf(process.pid);
    db.run("INSERT INTO holder (pid, started) VALUES (?, ?)", [process.pid, started]);
    const boot = bootOf(holder?.started);
    return {
      uncleanStop: holder !== null,
      machineRestarted: boot === undefined || boot !== bootOf(started),
    };
  });
  return claim.immediate();
}

/** The living process that has the file, without taking it. */
export function holderOf(db: Database): number | undefined {
  const holder = db.query<Holder, []>("SELECT pid, started FROM holder").get();
  return holder !== null && isAlive(holder) ? holder.pid : undefined;
}

export function releaseFile(db: Database): void {
  db.run("DELETE FROM holder");
}

/** After an opening that failed: releases the file, but not the suspicion that it is damaged. */
export function abandonFile(db: Database, uncleanStop: boolean): void {
  try {
    if (uncleanStop) db.run("UPDATE holder SET started = 'nobody'");
    else releaseFile(db);
  } catch {
    // A damaged file may refuse this, too; the failure that led here is the one to report.
  }
}

function inUse(path: string, pid: number): AglError {
  return new AglError("store", `${path} is in use by process ${pid}`, {
    remedy: "stop that process, use it through its HTTP address, or choose another store file",
  });
}

/** A pid may have passed to another process since; its start time tells. */
function isAlive(holder: Holder): boolean {
  if (!isRunning(holder.pid)) return false;
  const started = startOf(holder.pid);
  return started === null || holder.started === null || started === holder.started;
}

function bootOf(started: string | null | undefined): string | undefined {
  return started?.split(":")[0];
}

/** Clock ticks between boot and the start of the process, with the boot's id; null where there is no /proc. */
function startOf(pid: number): string | null {
  const state = processState(pid);
  if (state === null) return null;
  try {
    return `${readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()}:${state.started}`;
  } catch {
    return null;
  }
}
