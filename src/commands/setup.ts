import { assetFolder } from "../assets.ts";
import { cacheFolder } from "../cache-folder.ts";
import type { Config } from "../config.ts";
import { chooseProfile } from "../engine/profile.ts";
import { createLogger } from "../log.ts";
import { preparePython } from "./python.ts";
import { stopOnSignals } from "./stop-signals.ts";

/** `agl setup`: makes the Python environment and prints its Python. */
export async function setup(config: Config): Promise<number> {
  const say = (line: string) => console.log(line);
  const stop = stopOnSignals(say);
  try {
    const cache = cacheFolder(config.cache);
    // An environment can be made where there is no GPU, say for an image.
    const profile =
      config.profile === "auto" ? (await chooseProfile("auto", stop.signal)).profile : config.profile;
    const python = await preparePython(config, {
      profile,
      assets: await assetFolder(cache),
      cache,
      log: createLogger("setup", { level: config.log_level }),
      say,
      signal: stop.signal,
    });
    say(`python: ${python}`);
    return 0;
  } finally {
    stop.release();
  }
}
