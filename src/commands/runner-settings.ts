import type { StoreAddress } from "../client/store-address.ts";
import type { Config } from "../config.ts";
import type { RunnersOptions } from "../runner/options.ts";

/** What the configuration says to the runners. */
export function runnerSettings(
  config: Config,
  { store, agent, uvx }: { store: StoreAddress; agent: string | undefined; uvx: string[] | undefined },
): Omit<RunnersOptions, "signal" | "log" | "onEvent"> {
  return {
    storeUrl: store.url,
    ...(store.authorization === undefined ? {} : { storeAuthorization: store.authorization }),
    workerPrefix: config["runners.prefix"],
    workers: config["runners.count"],
    concurrency: config["runners.concurrency"],
    tracer: config["runners.tracer"],
    attemptTimeoutSeconds: config["rollouts.attempt_timeout_seconds"],
    ...(agent === undefined ? {} : { agentFile: agent }),
    ...(uvx === undefined ? {} : { uvx }),
  };
}
