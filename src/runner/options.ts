import * as v from "valibot";
import { type Logger, logLevels } from "../log.ts";
import type { RunnerEvent } from "./events.ts";
import { tracers } from "./tracer.ts";

const positive = v.pipe(v.number(), v.finite(), v.gtValue(0));
const count = (most: number) => v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(most));

/** What the parent hands to the runners' process as one line of JSON. Times are seconds. */
export const runnersSettingsSchema = v.object({
  storeUrl: v.pipe(v.string(), v.url()),
  /** Value of the `Authorization` header, for a store that wants a token. */
  storeAuthorization: v.optional(v.string()),
  /** Threads. */
  workers: v.optional(count(256), 4),
  /** Attempts that a thread holds at once. */
  concurrency: v.optional(count(1024), 4),
  /** The built-in math agent when absent. */
  agentFile: v.optional(v.nullable(v.string()), null),
  agentSettings: v.optional(v.record(v.string(), v.unknown()), {}),
  tracer: v.optional(v.picklist(tracers), "otel"),
  /** Workers are named with it and a number; runners on several hosts need different ones. */
  workerPrefix: v.optional(v.string(), "Worker-"),
  heartbeatSeconds: v.optional(positive, 10),
  /** Limit of one attempt, from dequeue to the agent's return. */
  attemptTimeoutSeconds: v.optional(positive, 300),
  /** From the abort signal at the limit until the thread is ended. */
  graceSeconds: v.optional(positive, 5),
  /** How long to wait for a store that does not answer yet. */
  connectSeconds: v.optional(positive, 30),
  /** Held dequeues, at a store that knows `wait_seconds`. */
  waitSeconds: v.optional(positive, 20),
  /** Between dequeues, at a store that does not. */
  pollSeconds: v.optional(positive, 5),
  toolStartSeconds: v.optional(positive, 120),
  toolCallSeconds: v.optional(positive, 30),
  /** Replaces the word `uvx` in tool commands, e.g. `["/path/to/uv", "tool", "run"]`. */
  uvx: v.optional(v.pipe(v.array(v.string()), v.minLength(1))),
  /** Threads that may die in a row, without any attempt in between that came to its own end. */
  maxWorkerDeaths: v.optional(count(10_000), 20),
  logLevel: v.optional(v.picklist(logLevels), "info"),
});

export type RunnersSettings = v.InferOutput<typeof runnersSettingsSchema>;

export type RunnersOptions = v.InferInput<typeof runnersSettingsSchema> & {
  /** Ends the runners; attempts in flight end as failed with reason `cancelled`. */
  signal?: AbortSignal;
  log?: Logger;
  onEvent?: (event: RunnerEvent) => void;
};
