import { AglError } from "../errors.ts";
import { pause } from "./pause.ts";

const limitMs = 30_000;
const betweenMs = 250;

/** Asks until the store answers; undefined when the signal comes first. */
export async function untilReachable<Health extends { ok: boolean }>(
  ask: () => Promise<Health>,
  url: string,
  signal: AbortSignal = new AbortController().signal,
): Promise<Health | undefined> {
  const deadline = performance.now() + limitMs;
  while (!signal.aborted) {
    const health = await ask();
    if (health.ok) return health;
    if (performance.now() >= deadline) {
      throw new AglError("store", `no store answers at ${url}`, {
        remedy: "start it first, or give its address",
      });
    }
    await pause(betweenMs, signal);
  }
  return undefined;
}
