import type { Config } from "../config.ts";
import type { RunnersOptions } from "../runner/options.ts";

/** What the configuration says to the runners. */
export function runnerSettings(
  config: Config,
  { storeUrl, agent, uvx }: { storeUrl: string; agent: string | undefined; uvx: string[] | undefined },
): Omit<RunnersOptions, "signal" | "log" | "onEvent"> {
  return {
    storeUrl,
    workerPrefix: config["runners.prefix"],
    workers: config["runners.count"],
    concurrency: config["runners.concurrency"],
    tracer: config["runners.tracer"],
    attemptTimeoutSeconds: config["rollouts.attempt_timeout_seconds"],
    ...(agent === undefined ? {} : { agentFile: agent }),
    ...(uvx === undefined ? {} : { uvx }),
  };
}
