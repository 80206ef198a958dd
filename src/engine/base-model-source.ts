import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { AglError, messageOf, UsageError } from "../errors.ts";
import { nearest } from "../nearest.ts";
import { isStableCheckpoint, publishCheckpoint } from "./checkpoint.ts";
import { holdExclusively } from "./exclusive-file.ts";
import { folderOf, type HubName, parseHubName } from "./hub-name.ts";
import { fetchModel, type FetchOptions } from "./model-fetch.ts";

export interface BaseModelOptions extends FetchOptions {
  /** A folder, or a model of the hub: `owner/name`, `owner/name@revision`. */
  model: string;
  /** Fetched models lie in its folder `models`, one folder each, and are fetched once. */
  cacheFolder: string;
}

export interface BaseModel {
  path: string;
  fetched: boolean;
}

const waitLimitMs = 24 * 3_600_000;

/** Where a base model lies: the folder that was named, a model fetched earlier, or one fetched now. */
export async function resolveBaseModel(options: BaseModelOptions): Promise<BaseModel> {
  const here = findBaseModel(options.model, options.cacheFolder);
  if (here !== undefined) return { path: here, fetched: false };
  const hub = parseHubName(options.model) as HubName;
  const final = folderFor(hub, options.cacheFolder);
  makeFolder(dirname(final));
  const lock = await holdExclusively(`${final}.lock`, {
    signal: options.signal,
    timeoutMs: waitLimitMs,
    onWait: (holder) =>
      options.onProgress(
        `model: waiting for another agl${holder === undefined ? "" : ` (pid ${holder})`} that is fetching ${hub.name}`,
      ),
  });
  try {
    if (isStableCheckpoint(final)) return { path: final, fetched: false };
    await fetchInto(final, hub, options);
    return { path: final, fetched: true };
  } finally {
    lock.release();
  }
}

/**
 * The folder of a model that needs no fetch; undefined for one of the hub that is not here yet. Throws when the text names
 * neither. An existing folder wins over a model of the same name.
 */
export function findBaseModel(model: string, cacheFolder: string): string | undefined {
  if (existsSync(model)) return resolve(model);
  const hub = parseHubName(model);
  if (hub === undefined) throw noSuchFolder(model);
  const fetched = folderFor(hub, cacheFolder);
  return isStableCheckpoint(fetched) ? fetched : undefined;
}

function folderFor(hub: HubName, cacheFolder: string): string {
  return join(resolve(cacheFolder), "models", folderOf(hub));
}

function noSuchFolder(model: string): UsageError {
  const parent = dirname(resolve(model));
  const neighbours = existsSync(parent) && statSync(parent).isDirectory() ? readdirSync(parent) : [];
  const found = nearest(resolve(model).slice(parent.length + 1), neighbours);
  return new UsageError(
    `model: ${model} does not exist`,
    found === undefined
      ? "name a folder that holds a model, or a model of the hub as owner/name"
      : `did you mean ${join(parent, found)}?`,
  );
}

function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true });
  } catch (error) {
    throw new AglError("environment", `the folder of fetched models cannot be made: ${messageOf(error)}`, {
      remedy: "name another folder with --cache",
    });
  }
}

async function fetchInto(final: string, hub: HubName, options: BaseModelOptions): Promise<void> {
  const temporary = `${final}.fetching`;
  if (existsSync(final)) {
    // Not stable: it was damaged, or its publishing was cut short. What is whole in it is kept.
    if (existsSync(temporary)) rmSync(temporary, { recursive: true, force: true });
    renameSync(final, temporary);
  }
  const started = Date.now();
  options.onProgress(`model: fetching ${hub.name} (once)`);
  await fetchModel(hub, temporary, options);
  await publishCheckpoint(temporary, final);
  options.onProgress(`model: ${hub.name} is here after ${Math.round((Date.now() - started) / 1000)} s`);
}
