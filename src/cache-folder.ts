import { homedir } from "node:os";
import { join, resolve } from "node:path";

/** Where Python environments and extracted files live: outside of any project, shared by all runs of a user. */
export function cacheFolder(
  configured: string | undefined,
  environment: Record<string, string | undefined> = process.env,
): string {
  if (configured !== undefined) return resolve(configured);
  const base = environment["XDG_CACHE_HOME"];
  return join(base !== undefined && base !== "" ? base : join(homedir(), ".cache"), "agl");
}
