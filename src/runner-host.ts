import * as v from "valibot";
import { connectStore, type HttpStore } from "./client/http-store.ts";
import { describeOtherStore } from "./client/other-store.ts";
import { childEnvironment } from "./engine/child-environment.ts";
import { UsageError } from "./errors.ts";
import { failAbandonedAttempts } from "./runner/abandoned-attempts.ts";
import { type RunnersOptions, type RunnersSettings, runnersSettingsSchema } from "./runner/options.ts";
import { type RunnersOutcome, superviseRunners } from "./runner/runners.ts";
import { untilReachable } from "./runner/store-readiness.ts";

const endLimitMs = 2_000;

/**
 * Runs agents in threads of this process on the rollouts of a store, until `signal`. Throws when the agent cannot be
 * loaded, its tools do not start, or its threads keep dying.
 */
export async function runRunners(options: RunnersOptions): Promise<RunnersOutcome> {
  const settings = checkRunnersSettings(options);
  const store = connectStore(settings.storeUrl, {
    authorization: settings.storeAuthorization,
    ...(options.log === undefined ? {} : { log: options.log }),
    onOtherStore(change) {
      const message = describeOtherStore(change);
      options.onEvent?.({ event: "store-trouble", worker: "runners", message });
    },
  });
  const health = await untilReachable(() => store.health(), store.url, {
    signal: options.signal,
    limitSeconds: settings.connectSeconds,
    say: (message) => options.onEvent?.({ event: "waiting", message }),
  });
  try {
    return await superviseRunners(settings, options, {
      store,
      storeHolds: health?.waits ?? false,
      // The address must be written here, at the source root, to be found inside the compiled program.
      createWorker: () => new Worker(new URL("./runner-worker.ts", import.meta.url)),
      environment: childEnvironment(),
    });
  } finally {
    await Promise.race([endWhatIsLeft(store, settings), Bun.sleep(endLimitMs)]);
    await store.close();
  }
}

/** A rollout that was handed out in the moment of the stop is known to nobody else. */
async function endWhatIsLeft(store: HttpStore, { workers, workerPrefix }: RunnersSettings): Promise<void> {
  const ours = new Set(Array.from({ length: workers }, (_, index) => `${workerPrefix}${index}`));
  const isOurs = (worker: string) => ours.has(worker);
  try {
    await failAbandonedAttempts(store, { isOurs, reason: "cancelled", error: "the runners were stopped" });
  } catch {
    // The store is gone as well; its own limits end such attempts.
  }
}

/** The runners' settings with defaults filled in; names the setting that is wrong. */
export function checkRunnersSettings(given: unknown): RunnersSettings {
  const parsed = v.safeParse(runnersSettingsSchema, given);
  if (parsed.success) return parsed.output;
  const [issue] = parsed.issues;
  throw new UsageError(`runners: ${v.getDotPath(issue) ?? "options"}: ${issue.message}`);
}
