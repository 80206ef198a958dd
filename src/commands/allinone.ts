import type { Config, ResolvedConfig } from "../config.ts";
import { accessToken } from "./access-token.ts";
import { runAlgorithm } from "./algorithm-run.ts";

/** `agl allinone`: the whole loop, from nothing but this binary. */
export function allinone(
  config: Config,
  {
    sources,
    environment,
  }: { sources: ResolvedConfig["sources"]; environment: Record<string, string | undefined> },
): Promise<number> {
  const token = accessToken(config, environment);
  return runAlgorithm(config, { ownRunners: true, storeUrl: config["store.url"], token, sources });
}
