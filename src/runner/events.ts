import * as v from "valibot";

const attemptEndedSchema = v.object({
  event: v.literal("attempt-ended"),
  rolloutId: v.string(),
  attemptId: v.string(),
  worker: v.string(),
  /** What was written to the store; `none` when the store had ended the attempt before. */
  status: v.picklist(["succeeded", "failed", "timeout", "none"]),
  /** Of an attempt that did not succeed. */
  reason: v.optional(v.string()),
  error: v.optional(v.string()),
  reward: v.optional(v.nullable(v.number())),
  toolCalls: v.number(),
  seconds: v.number(),
});

/** What runners tell whoever started them. */
const runnerEventSchema = v.variant("event", [
  v.object({
    event: v.literal("ready"),
    agent: v.string(),
    workers: v.number(),
    concurrency: v.number(),
    tools: v.array(v.string()),
    seconds: v.number(),
  }),
  attemptEndedSchema,
  /** Nothing is wrong yet; what is missing is said once. */
  v.object({ event: v.literal("waiting"), message: v.string() }),
  v.object({
    event: v.literal("worker-replaced"),
    worker: v.string(),
    reason: v.string(),
    /** Threads that died in a row, this one included. */
    deaths: v.number(),
  }),
  v.object({
    event: v.literal("tool-server-replaced"),
    worker: v.string(),
    server: v.string(),
    reason: v.string(),
  }),
  /** The store could not be reached or refused; the work goes on. */
  v.object({ event: v.literal("store-trouble"), worker: v.string(), message: v.string() }),
  v.object({ event: v.literal("failed"), message: v.string(), remedy: v.optional(v.string()) }),
  v.object({
    event: v.literal("stopped"),
    succeeded: v.number(),
    failed: v.number(),
    failedBecause: v.record(v.string(), v.number()),
    workersReplaced: v.number(),
  }),
]);

export type RunnerEvent = v.InferOutput<typeof runnerEventSchema>;
export type AttemptEnded = v.InferOutput<typeof attemptEndedSchema>;

/** One line of a runners' process; null when it is something else that was printed there. */
export function parseRunnerEvent(line: string): RunnerEvent | null {
  try {
    const parsed = v.safeParse(runnerEventSchema, JSON.parse(line));
    return parsed.success ? parsed.output : null;
  } catch {
    return null;
  }
}
