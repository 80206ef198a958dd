import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../config.ts";
import type { Profile } from "../engine/profile.ts";
import { ensureEnvironment } from "../engine/python-environment.ts";
import { findUv } from "../engine/uv.ts";
import { UsageError } from "../errors.ts";
import type { Logger } from "../log.ts";

export interface PythonContext {
  profile: Profile;
  assets: string;
  cache: string;
  log: Logger;
  say: (line: string) => void;
  signal: AbortSignal;
}

/** The Python to serve and train with: the one that was named, or the pinned environment, made when missing. */
export async function preparePython(config: Config, context: PythonContext): Promise<string> {
  if (config.python !== undefined) {
    if (!existsSync(config.python)) {
      throw new UsageError(
        `python: ${config.python} does not exist`,
        "name the python file of an environment",
      );
    }
    return config.python;
  }
  const { python } = await ensureEnvironment({
    profile: context.profile,
    requirementsFolder: join(context.assets, "trainer", "requirements"),
    cacheFolder: context.cache,
    uv: findUv(config.uv === undefined ? {} : { path: config.uv }),
    log: context.log,
    onProgress: context.say,
    signal: context.signal,
  });
  return python;
}
