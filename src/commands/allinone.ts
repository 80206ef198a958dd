import type { Config } from "../config.ts";
import { runAlgorithm } from "./algorithm-run.ts";

/** `agl allinone`: the whole loop, from nothing but this binary. */
export function allinone(config: Config): Promise<number> {
  return runAlgorithm(config, { ownRunners: true, storeUrl: config["store.url"] });
}
