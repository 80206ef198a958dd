import { agentRunners } from "./agent-runners.ts";
import { compareAnswers, leaveStreams } from "./answer-comparison.ts";
import { bareInserts, syncTimes } from "./bare-storage.ts";
import { batchAlgorithm } from "./batch-algorithm.ts";
import { closedLoop } from "./closed-loop.ts";
import { writeUntilDeath } from "./crash-writers.ts";
import { microWorkload } from "./micro-workloads.ts";
import { modelCalls } from "./model-calls.ts";
import { drainQueue, fillQueue, startAttempts, timeDequeues, timeReads } from "./queue-jobs.ts";
import { seedSpans } from "./seed-spans.ts";
import { finishLatency, startLatency } from "./wake-latencies.ts";

/** A process of its own for what puts load on a server: it gets jobs from its parent and returns their results. */
const jobs = {
  agentRunners,
  bareInserts,
  batchAlgorithm,
  closedLoop,
  compareAnswers,
  drainQueue,
  fillQueue,
  finishLatency,
  leaveStreams,
  microWorkload,
  modelCalls,
  seedSpans,
  startAttempts,
  startLatency,
  syncTimes,
  timeDequeues,
  timeReads,
  writeUntilDeath,
};

export type Jobs = typeof jobs;
export type JobMessage = { type: "run"; id: number; name: keyof Jobs; job: unknown } | { type: "stop" };
export type JobAnswer = { id: number; result: unknown } | { id: number; error: string };

if (import.meta.main) {
  let stop = new AbortController();
  process.on("message", (message: JobMessage) => {
    if (message.type === "stop") {
      stop.abort();
      return;
    }
    stop = new AbortController();
    const run = jobs[message.name] as (job: unknown, stop: AbortSignal) => Promise<unknown>;
    run(message.job, stop.signal).then(
      (result) => process.send!({ id: message.id, result } satisfies JobAnswer),
      (error) => process.send!({ id: message.id, error: String(error?.stack ?? error) } satisfies JobAnswer),
    );
  });
  process.on("disconnect", () => process.exit(0));
}
