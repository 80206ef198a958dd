import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { AglError, messageOf } from "./errors.ts";

export interface RunFolder {
  name: string;
  path: string;
  models: string;
  logs: string;
  /** Rows, job files and what the trainer writes before it is proven. */
  work: string;
}

const maxTries = 1_000;

/** A new folder `runs/2026-11-29-1`; an earlier run's folder is never touched. */
export function createRunFolder(runs: string, now: Date = new Date()): RunFolder {
  const day = now.toISOString().slice(0, 10);
  const parent = resolve(runs);
  try {
    mkdirSync(parent, { recursive: true });
    for (let number = 1; number <= maxTries; number++) {
      const name = `${day}-${number}`;
      if (makeNew(join(parent, name))) return layOut(name, join(parent, name));
    }
  } catch (error) {
    throw new AglError("configuration", `${parent}: no run folder can be made (${messageOf(error)})`, {
      remedy: "run where you may write, or set --runs to such a folder",
    });
  }
  throw new AglError("configuration", `${parent} holds ${maxTries} runs of ${day}`, {
    remedy: "remove or move old runs",
  });
}

function makeNew(path: string): boolean {
  try {
    mkdirSync(path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

function layOut(name: string, path: string): RunFolder {
  const folder = {
    name,
    path,
    models: join(path, "models"),
    logs: join(path, "logs"),
    work: join(path, "work"),
  };
  for (const inner of [folder.models, folder.logs, folder.work]) mkdirSync(inner);
  return folder;
}
