import { AglError } from "../errors.ts";
import type { Mode } from "../protocol/enums.ts";
import type { StoreApi } from "../protocol/store-api.ts";
import type { JsonObject, Rollout, RolloutConfig, Span } from "../protocol/types.ts";

export interface FinishedRollout {
  rollout: Rollout;
  /** Of the latest attempt, in order. */
  spans: Span[];
  /** Why it did not succeed: the reason its runner gave, else the status of its last attempt. */
  failure?: string;
}

export interface RolloutProgress {
  done: number;
  failed: number;
  total: number;
}

export interface RolloutPhase {
  store: StoreApi;
  tasks: unknown[];
  mode: Mode;
  resourcesId: string;
  /** Kept with each rollout: which iteration and purpose it served. */
  metadata: JsonObject;
  config: Partial<RolloutConfig>;
  /** Limit of the whole phase. */
  timeoutSeconds: number;
  signal: AbortSignal;
  onProgress?: (progress: RolloutProgress) => void;
}

const enqueueBatch = 256;
const waitSeconds = 20;
/** Pause between polls of a store that does not hold answers. */
const pollMs = 1_000;
const readsAtOnce = 16;

/** Queues one rollout a task, waits until all are finished and reads what they left behind, in task order. */
export async function runRollouts(phase: RolloutPhase): Promise<FinishedRollout[]> {
  const ids = await enqueue(phase);
  const finished = new Map<string, FinishedRollout>();
  const deadline = Date.now() + phase.timeoutSeconds * 1000;
  let failed = 0;
  while (finished.size < ids.length) {
    phase.signal.throwIfAborted();
    const started = Date.now();
    if (started >= deadline) throw phaseTimedOut(phase, finished.size, ids.length);
    const pending = ids.filter((id) => !finished.has(id));
    const done = await phase.store.waitForRollouts(
      { rollout_ids: pending, timeout: 0, wait_seconds: Math.min(waitSeconds, (deadline - started) / 1000) },
      { signal: phase.signal },
    );
    for (const found of await readAll(phase.store, done)) {
      finished.set(found.rollout.rollout_id, found);
      if (found.failure !== undefined) failed += 1;
    }
    if (done.length > 0) phase.onProgress?.({ done: finished.size, failed, total: ids.length });
    else if (Date.now() - started < pollMs) await Bun.sleep(pollMs);
  }
  return ids.map((id) => finished.get(id) as FinishedRollout);
}

async function enqueue(phase: RolloutPhase): Promise<string[]> {
  const ids: string[] = [];
  for (let start = 0; start < phase.tasks.length; start += enqueueBatch) {
    const rollouts = await phase.store.enqueueRollouts(
      phase.tasks.slice(start, start + enqueueBatch).map((input) => ({
        input,
        mode: phase.mode,
        resources_id: phase.resourcesId,
        config: phase.config,
        metadata: phase.metadata,
      })),
    );
    ids.push(...rollouts.map(({ rollout_id }) => rollout_id));
  }
  return ids;
}

async function readAll(store: StoreApi, rollouts: Rollout[]): Promise<FinishedRollout[]> {
  const found: FinishedRollout[] = [];
  for (let start = 0; start < rollouts.length; start += readsAtOnce) {
    const some = rollouts.slice(start, start + readsAtOnce);
    found.push(...(await Promise.all(some.map((rollout) => readOne(store, rollout)))));
  }
  return found;
}

async function readOne(store: StoreApi, rollout: Rollout): Promise<FinishedRollout> {
  const { items: spans } = await store.querySpans({ rollout_id: rollout.rollout_id, attempt_id: "latest" });
  if (rollout.status === "succeeded") return { rollout, spans };
  const attempt = await store.getLatestAttempt(rollout.rollout_id);
  const reason = attempt?.metadata?.["reason"];
  return {
    rollout,
    spans,
    failure: typeof reason === "string" ? reason : (attempt?.status ?? rollout.status),
  };
}

function phaseTimedOut(phase: RolloutPhase, done: number, total: number): AglError {
  return new AglError(
    "agent",
    `only ${done} of ${total} rollouts finished within ${phase.timeoutSeconds} s`,
    {
      remedy: "raise rollouts.phase_timeout_seconds, or see the run's log for what the runners are doing",
    },
  );
}
