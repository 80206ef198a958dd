import { resolve } from "node:path";
import type { Config } from "../config.ts";
import type { ProxyOptions } from "../proxy/proxy.ts";

export type RecordingOptions = Required<Pick<ProxyOptions, "spool" | "whenFull">>;

/** Where recorded calls wait while the store is away, and what happens when no more can. */
export function recordingOptions(
  config: Config,
  { store, folder }: { store: string; folder: string },
): RecordingOptions {
  return {
    spool: {
      folder: resolve(config["proxy.spool_dir"] ?? folder),
      store,
      maxBytes: config["proxy.spool_max_mb"] * 1024 * 1024,
    },
    whenFull: config["proxy.when_full"],
  };
}
