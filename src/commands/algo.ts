import { resolve } from "node:path";
import type { Config, ResolvedConfig } from "../config.ts";
import { runAlgorithm } from "./algorithm-run.ts";
import { defaultStoreUrl } from "./store-url.ts";

/** `agl algo [FILE]`: the algorithm with its proxy, engine and trainer, on a store and runners that run elsewhere. */
export function algo(
  config: Config,
  { args: [file], sources }: { args: string[]; sources: ResolvedConfig["sources"] },
): Promise<number> {
  return runAlgorithm(config, {
    ownRunners: false,
    storeUrl: config["store.url"] ?? defaultStoreUrl,
    sources,
    ...(file === undefined ? {} : { algorithmFile: resolve(file) }),
  });
}
