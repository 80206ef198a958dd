import type { JsonObject } from "../protocol/types.ts";
import { proxyResource } from "../proxy/resource.ts";
import type { Improvement } from "./improvement.ts";
import { type FinishedRollout, runRollouts } from "./rollouts.ts";

interface RollOut {
  tasks: unknown[];
  mode: "train" | "val";
  sampling: JsonObject;
  metadata: JsonObject;
  label: string;
}

/** Publishes the proxy as resource `main_llm` with these sampling parameters and runs the tasks against it. */
export async function rollOut(run: Improvement, what: RollOut): Promise<FinishedRollout[]> {
  const resource = proxyResource(run.proxy.endpoint, run.settings.modelName, what.sampling);
  const { resources_id } = await run.store.addResources({ main_llm: resource });
  return await runRollouts({
    store: run.store,
    tasks: what.tasks,
    mode: what.mode,
    resourcesId: resources_id,
    metadata: what.metadata,
    config: {
      // The runner ends an attempt itself; these free one whose runner is gone.
      timeout_seconds: run.settings.attemptTimeoutSeconds + 60,
      unresponsive_seconds: 120,
    },
    timeoutSeconds: run.settings.phaseTimeoutSeconds,
    signal: run.signal,
    onProgress: (progress) => run.onProgress(what.label, progress),
  });
}
