import { AglError } from "../errors.ts";
import { pause } from "./pause.ts";

const betweenMs = 250;

export interface ReachOptions {
  signal?: AbortSignal | undefined;
  /** 30 s by default. */
  limitSeconds?: number;
  /** Told once that the store is waited for. */
  say?: (line: string) => void;
}

/** Asks until the store answers; undefined when the signal comes first. One that denies access is not asked again. */
export async function untilReachable<Health extends { ok: boolean; refused?: AglError; instead?: string }>(
  ask: () => Promise<Health>,
  url: string,
  { signal = new AbortController().signal, limitSeconds = 30, say }: ReachOptions = {},
): Promise<Health | undefined> {
  const deadline = performance.now() + limitSeconds * 1_000;
  let said = false;
  while (!signal.aborted) {
    const health = await ask();
    if (health.ok) return health;
    if (health.refused !== undefined) throw health.refused;
    const instead = health.instead === undefined ? "" : `: ${health.instead}`;
    if (performance.now() >= deadline) {
      throw new AglError("store", `no store answers at ${url} (waited ${limitSeconds} s)${instead}`, {
        remedy: "start it with `agl store`, or name its address with --store-url",
      });
    }
    if (!said) say?.(`waiting: no store answers at ${url} yet${instead}`);
    said = true;
    await pause(betweenMs, signal);
  }
  return undefined;
}
