import type { Config, ResolvedConfig } from "../config.ts";
import { runAlgorithm } from "./algorithm-run.ts";

/** `agl allinone`: the whole loop, from nothing but this binary. */
export function allinone(
  config: Config,
  { sources }: { sources: ResolvedConfig["sources"] },
): Promise<number> {
  return runAlgorithm(config, { ownRunners: true, storeUrl: config["store.url"], sources });
}
