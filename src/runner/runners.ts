import { DownloadGate } from "../agent/tool-command.ts";
import { within } from "../agent/within.ts";
import { silentLogger } from "../log.ts";
import type { StoreApi } from "../protocol/store-api.ts";
import { DeathCount } from "./death-count.ts";
import type { AttemptEnded, RunnerEvent } from "./events.ts";
import type { RunnersOptions, RunnersSettings } from "./options.ts";
import { RunnerSlot } from "./slot.ts";
import { untilAborted } from "./until-aborted.ts";
import { createWorkerStats } from "./worker-stats.ts";

/** Attempts cancelled by a stop have this long to be written before the threads are ended. */
const recordLimitMs = 5_000;

/** Failures in which the agent came to an end and its thread lives on. */
const ownEnds = new Set(["agent_error", "invalid_reward", "tool_server"]);

export interface RunnersOutcome {
  succeeded: number;
  failed: number;
  /** By the reason stored with the attempt. */
  failedBecause: Record<string, number>;
  workersReplaced: number;
}

export interface RunnersDependencies {
  store: StoreApi;
  storeHolds: boolean;
  createWorker: () => Worker;
  /** Of tool servers. */
  environment: Record<string, string>;
}

/** Runs agents on the store's rollouts until the signal; throws when that cannot go on. */
export async function superviseRunners(
  settings: RunnersSettings,
  { signal, log = silentLogger, onEvent }: Pick<RunnersOptions, "signal" | "log" | "onEvent">,
  { store, storeHolds, createWorker, environment }: RunnersDependencies,
): Promise<RunnersOutcome> {
  const started = performance.now();
  const stop = new AbortController();
  const stopped = signal === undefined ? stop.signal : AbortSignal.any([stop.signal, signal]);
  const deaths = new DeathCount(settings.maxWorkerDeaths);
  const outcome: RunnersOutcome = { succeeded: 0, failed: 0, failedBecause: {}, workersReplaced: 0 };
  const emit = (event: RunnerEvent) => onEvent?.(event);
  const gate = new DownloadGate();
  const stats = createWorkerStats();

  const slots = Array.from({ length: settings.workers }, (_, index) => {
    return new RunnerSlot({
      label: `${settings.workerPrefix}${index}`,
      settings,
      store,
      storeHolds,
      deaths,
      stats,
      log,
      emit,
      stop: stopped,
      agent: { createWorker, agentFile: settings.agentFile, settings: settings.agentSettings },
      tools: {
        environment,
        gate,
        startLimitMs: settings.toolStartSeconds * 1000,
        callLimitMs: settings.toolCallSeconds * 1000,
        ...(settings.uvx === undefined ? {} : { uvx: settings.uvx }),
      },
      onAttemptEnded: (ended) => {
        count(outcome, ended);
        if (ended.reason === undefined || ownEnds.has(ended.reason)) deaths.reset();
        emit(ended);
      },
    });
  });

  try {
    const prepared = await untilAborted(Promise.all(slots.map((slot) => slot.prepare())), stopped);
    const first = prepared?.[0];
    if (first !== undefined) {
      emit({
        event: "ready",
        agent: first.agent.name,
        workers: settings.workers,
        concurrency: settings.concurrency,
        tools: first.tools,
        seconds: Math.round(performance.now() - started) / 1000,
      });
      await workAll(slots, stop, stopped);
    }
  } finally {
    stop.abort();
    await Promise.all(slots.map((slot) => slot.end()));
    outcome.workersReplaced = deaths.total;
  }
  return outcome;
}

/** Ends a bounded time after the stop, or after the first slot that cannot go on; the others' attempts are cancelled. */
async function workAll(slots: RunnerSlot[], stop: AbortController, stopped: AbortSignal): Promise<void> {
  try {
    await untilAborted(Promise.all(slots.map((slot) => slot.work())), stopped);
  } finally {
    stop.abort();
    await within(recordLimitMs, Promise.all(slots.map((slot) => slot.settled())));
  }
}

function count(outcome: RunnersOutcome, ended: AttemptEnded): void {
  if (ended.status === "succeeded") outcome.succeeded++;
  else outcome.failed++;
  if (ended.reason === undefined) return;
  outcome.failedBecause[ended.reason] = (outcome.failedBecause[ended.reason] ?? 0) + 1;
}
