import { resolve } from "node:path";
import type { Config, ResolvedConfig } from "../config.ts";
import { runAlgorithm } from "./algorithm-run.ts";
import { accessToken } from "./access-token.ts";
import { defaultStoreUrl } from "./store-url.ts";

/** `agl algo [FILE]`: the algorithm with its proxy, engine and trainer, on a store and runners that run elsewhere. */
export function algo(
  config: Config,
  {
    args: [file],
    sources,
    environment,
  }: {
    args: string[];
    sources: ResolvedConfig["sources"];
    environment: Record<string, string | undefined>;
  },
): Promise<number> {
  return runAlgorithm(config, {
    ownRunners: false,
    storeUrl: config["store.url"] ?? defaultStoreUrl,
    token: accessToken(config, environment),
    sources,
    ...(file === undefined ? {} : { algorithmFile: resolve(file) }),
  });
}
