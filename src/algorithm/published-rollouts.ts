import type { JsonObject } from "../protocol/types.ts";
import type { AlgorithmContext } from "./algorithm.ts";
import { type FinishedRollout, runRollouts } from "./rollouts.ts";

interface RollOut {
  tasks: unknown[];
  mode: "train" | "val";
  sampling: JsonObject;
  metadata: JsonObject;
  label: string;
}

/** Publishes the model as resource `main_llm` with these sampling parameters and runs the tasks against it. */
export async function rollOut(context: AlgorithmContext, what: RollOut): Promise<FinishedRollout[]> {
  const { store, proxy, settings, signal } = context;
  const { resources_id } = await store.addResources({
    main_llm: proxy.resource(what.sampling),
    ...context.resources,
  });
  return await runRollouts({
    store,
    tasks: what.tasks,
    mode: what.mode,
    resourcesId: resources_id,
    metadata: { ...what.metadata, agent_settings: settings.agentSettings },
    config: {
      // The runner ends an attempt itself; these free one whose runner is gone.
      timeout_seconds: settings.attemptTimeoutSeconds + 60,
      unresponsive_seconds: 120,
    },
    timeoutSeconds: settings.phaseTimeoutSeconds,
    signal,
    onProgress: (progress) => context.onProgress(what.label, progress),
  });
}
