import { resolve } from "node:path";
import type { Config } from "../config.ts";
import { createLogger } from "../log.ts";
import { runRunners } from "../runner-host.ts";
import type { RunnerEvent } from "../runner/events.ts";
import { uvxCommand } from "./inputs.ts";
import { runnerSettings } from "./runner-settings.ts";
import { stopOnSignals } from "./stop-signals.ts";
import { chosenStore } from "./store-url.ts";

/** `agl runners [AGENT]`: works on a store's rollouts until it is stopped. */
export async function runnersHere(
  config: Config,
  { args: [file], environment }: { args: string[]; environment: Record<string, string | undefined> },
): Promise<number> {
  const say = (line: string) => console.log(line);
  const store = chosenStore(config, environment);
  const stop = stopOnSignals(say);
  const agent = file ?? config.agent;
  const show = (event: RunnerEvent) => {
    const line = describeRunnerEvent(event);
    if (line !== undefined) say(line);
  };
  try {
    const outcome = await runRunners({
      ...runnerSettings(config, {
        store,
        agent: agent === undefined ? undefined : resolve(agent),
        uvx: uvxCommand(config),
      }),
      connectSeconds: config["store.connect_seconds"],
      signal: stop.signal,
      log: createLogger("runner", { level: config.log_level }),
      onEvent: show,
    });
    show({ event: "stopped", ...outcome });
    stop.signal.throwIfAborted();
    return 0;
  } finally {
    stop.release();
  }
}

/** A line for a person, or nothing where an event is only for programs. */
function describeRunnerEvent(event: RunnerEvent): string | undefined {
  switch (event.event) {
    case "ready":
      return `runners: ready, agent ${event.agent}, ${event.workers} workers × ${event.concurrency} attempts (${event.seconds} s)`;
    case "waiting":
      return event.message;
    case "attempt-ended": {
      const outcome =
        event.status === "succeeded" ? `reward ${event.reward ?? "none"}` : (event.reason ?? "");
      return `${event.worker} ${event.rolloutId} ${event.status}, ${outcome}, ${event.seconds.toFixed(1)} s`;
    }
    case "worker-replaced":
      return `${event.worker}: replaced (${event.reason})`;
    case "tool-server-replaced":
      return `${event.worker}: tool server ${event.server} replaced (${event.reason})`;
    case "store-trouble":
      return `${event.worker}: ${event.message}`;
    case "stopped":
      return `runners: stopped, ${event.succeeded} succeeded, ${event.failed} failed`;
    case "failed":
      return undefined;
  }
}
