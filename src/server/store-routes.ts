import type { Context } from "hono";
import * as v from "valibot";
import { StoreRequestError } from "../errors.ts";
import type { Logger } from "../log.ts";
import {
  attemptPatchSchema,
  attemptQuerySchema,
  dequeueSchema,
  enqueueSchema,
  heartbeatSchema,
  nextSequenceSchema,
  nextSequencesSchema,
  resourcesQuerySchema,
  rolloutPatchSchema,
  rolloutQuerySchema,
  spanQuerySchema,
  startAttemptSchema,
  startRolloutSchema,
  waitSchema,
  workerQuerySchema,
} from "../protocol/request-schemas.ts";
import { stringifyJson } from "../protocol/json.ts";
import { resourcesSchema } from "../protocol/resource-schema.ts";
import { spanSchema } from "../protocol/span-schema.ts";
import type { AttemptPatch, RolloutPatch, StoreApi } from "../protocol/store-api.ts";
import { metricsContentType, type StoreMetrics } from "./metrics/store-metrics.ts";
import { otlpTraces } from "./otlp/otlp-route.ts";
import { readBody, readQuery } from "./request-body.ts";
import { factsOf } from "./request-facts.ts";
import type { Route } from "./route-fallback.ts";
import { addSpanBatch } from "./span-batch.ts";
import { check } from "./validation.ts";

export interface RouteContext {
  store: StoreApi;
  storeId: string | null;
  maxBodyBytes: number;
  stopping: AbortSignal | undefined;
  log: Logger;
  metrics: StoreMetrics;
}

/** Every route, in the order in which they are tried: literal segments before parameters (W-4). */
export function storeRoutes(context: RouteContext): Route[] {
  const prefixed = [
    ...generalRoutes(context),
    ...queueRoutes(context),
    ...rolloutRoutes(context),
    ...attemptRoutes(context),
    ...resourceRoutes(context),
    ...spanRoutes(context),
    ...workerRoutes(context),
  ].map((route) => ({ ...route, path: `/v1/agl${route.path}` }));
  return [...prefixed, ...telemetryRoutes(context), ...metricsRoutes(context)];
}

function generalRoutes({ store, storeId }: RouteContext): Route[] {
  const health = { status: "ok", store_id: storeId, wait_seconds: true };
  return [get("/health", async () => health), get("/statistics", () => store.statistics())];
}

function queueRoutes(context: RouteContext): Route[] {
  const { store } = context;
  return [
    post("/queues/rollouts/enqueue", 201, async (c) => {
      const { rollouts } = await body(c, context, enqueueSchema);
      return store.enqueueRollouts(rollouts);
    }),
    post("/queues/rollouts/dequeue", 200, async (c) =>
      store.dequeueRollouts(await body(c, context, dequeueSchema), { signal: callerGone(c, context) }),
    ),
    { method: "POST", path: "/waits/rollouts", handle: (c) => answerWait(c, context) },
  ];
}

/** A wait that the stop of the server cut short is to be asked again: its answer would pass for the whole one. */
async function answerWait(c: Context, context: RouteContext): Promise<Response> {
  const request = await body(c, context, waitSchema);
  const finished = await context.store.waitForRollouts(request, { signal: callerGone(c, context) });
  const { rollout_ids: asked, timeout, wait_seconds: waitSeconds } = request;
  const isHeld = (waitSeconds ?? timeout ?? Number.POSITIVE_INFINITY) > 0;
  const isWhole = waitSeconds === undefined ? finished.length === new Set(asked).size : finished.length > 0;
  if (context.stopping?.aborted !== true || !isHeld || isWhole) return json(c, finished, 200);
  return json(c, { detail: "The store is stopping; ask again when it is back" }, 503);
}

function rolloutRoutes(context: RouteContext): Route[] {
  const { store } = context;
  const lists = ["status_in", "rollout_id_in", "mode_in"];
  return [
    post("/rollouts", 201, async (c) => store.startRollout(await body(c, context, startRolloutSchema))),
    get("/rollouts", (c) => store.queryRollouts(check(rolloutQuerySchema, readQuery(c, lists), "query"))),
    post("/rollouts/search", 200, async (c) =>
      store.queryRollouts(await body(c, context, rolloutQuerySchema)),
    ),
    get("/rollouts/:rollout_id", (c) => store.getRollout(id(c, "rollout_id"))),
    post("/rollouts/:rollout_id", 200, async (c) => {
      const patch = refuseNull(await body(c, context, rolloutPatchSchema), ["status", "config"]);
      return store.updateRollout(id(c, "rollout_id"), patch as RolloutPatch);
    }),
  ];
}

function attemptRoutes(context: RouteContext): Route[] {
  const { store } = context;
  return [
    post("/rollouts/:rollout_id/attempts", 201, async (c) => {
      const { worker_id: workerId } = await body(c, context, startAttemptSchema);
      return store.startAttempt(id(c, "rollout_id"), workerId);
    }),
    get("/rollouts/:rollout_id/attempts", (c) =>
      store.queryAttempts(id(c, "rollout_id"), check(attemptQuerySchema, readQuery(c), "query")),
    ),
    post("/rollouts/:rollout_id/attempts/search", 200, async (c) =>
      store.queryAttempts(id(c, "rollout_id"), await body(c, context, attemptQuerySchema)),
    ),
    get("/rollouts/:rollout_id/attempts/latest", (c) => store.getLatestAttempt(id(c, "rollout_id"))),
    post("/rollouts/:rollout_id/attempts/:attempt_id", 200, async (c) => {
      const members = ["status", "worker_id", "last_heartbeat_time", "metadata"];
      const patch = refuseNull(await body(c, context, attemptPatchSchema), members);
      return store.updateAttempt(id(c, "rollout_id"), id(c, "attempt_id"), patch as AttemptPatch);
    }),
  ];
}

function resourceRoutes(context: RouteContext): Route[] {
  const { store } = context;
  return [
    get("/resources", (c) => store.queryResources(check(resourcesQuerySchema, readQuery(c), "query"))),
    post("/resources", 201, async (c) => store.addResources(await body(c, context, resourcesSchema))),
    get("/resources/latest", () => store.getLatestResources()),
    get("/resources/:resources_id", (c) => store.getResources(id(c, "resources_id"))),
    post("/resources/:resources_id", 200, async (c) =>
      store.updateResources(id(c, "resources_id"), await body(c, context, resourcesSchema)),
    ),
  ];
}

function spanRoutes(context: RouteContext): Route[] {
  const { store } = context;
  return [
    post("/spans", 201, async (c) => store.addSpan(await body(c, context, spanSchema))),
    get("/spans", (c) => store.querySpans(check(spanQuerySchema, readQuery(c), "query"))),
    post("/spans/search", 200, async (c) => store.querySpans(await body(c, context, spanQuerySchema))),
    post("/spans/batch", 201, async (c) => addSpanBatch(store, await readBody(c, context.maxBodyBytes))),
    post("/spans/next", 200, async (c) => {
      const request = await body(c, context, nextSequenceSchema);
      return { sequence_id: await store.nextSequenceId(request.rollout_id, request.attempt_id) };
    }),
    post("/spans/next/batch", 200, async (c) => {
      const { spans } = await body(c, context, nextSequencesSchema);
      return { spans: await store.nextSequenceIds(spans) };
    }),
  ];
}

function workerRoutes(context: RouteContext): Route[] {
  const { store } = context;
  return [
    get("/workers", (c) =>
      store.queryWorkers(check(workerQuerySchema, readQuery(c, ["status_in"]), "query")),
    ),
    post("/workers/search", 200, async (c) => store.queryWorkers(await body(c, context, workerQuerySchema))),
    get("/workers/:worker_id", (c) => store.getWorker(id(c, "worker_id"))),
    post("/workers/:worker_id", 200, async (c) => {
      const heartbeat = refuseNull(await body(c, context, heartbeatSchema), ["heartbeat_stats"]);
      return store.updateWorker(id(c, "worker_id"), heartbeat.heartbeat_stats ?? undefined);
    }),
  ];
}

/** O-8: only traces are taken. */
function telemetryRoutes(context: RouteContext): Route[] {
  const others = ["/v1/metrics", "/v1/logs", "/v1/development/profiles"];
  return [
    { method: "POST", path: "/v1/traces", handle: otlpTraces(context) },
    ...others.map((path): Route => ({ method: "POST", path, handle: (c) => c.body(null, 501) })),
  ];
}

/** Section 8.4. Upstream leads the path without a slash to the one with it; here both answer. */
function metricsRoutes({ metrics }: RouteContext): Route[] {
  const handle = (c: Context) => c.body(metrics.render(), 200, { "content-type": metricsContentType });
  return ["/v1/prometheus", "/v1/prometheus/"].map((path) => ({ method: "GET", path, handle }));
}

function get(path: string, answer: (c: Context) => Promise<unknown>): Route {
  return { method: "GET", path, handle: async (c) => json(c, await answer(c), 200) };
}

function post(path: string, status: 200 | 201, answer: (c: Context) => Promise<unknown>): Route {
  return { method: "POST", path, handle: async (c) => json(c, await answer(c), status) };
}

function json(c: Context, value: unknown, status: 200 | 201 | 503): Response {
  return c.body(stringifyJson(value), status, factsOf(c).answerHeaders);
}

async function body<Schema extends v.GenericSchema>(
  c: Context,
  { maxBodyBytes }: RouteContext,
  schema: Schema,
): Promise<v.InferOutput<Schema>> {
  return check(schema, await readBody(c, maxBodyBytes), "body");
}

function id(c: Context, name: string): string {
  return c.req.param(name) ?? "";
}

/** E-12, E-15. */
function refuseNull<Patch extends object>(patch: Patch, members: readonly string[]): Patch {
  for (const member of members) {
    if ((patch as Record<string, unknown>)[member] !== null) continue;
    throw new StoreRequestError(400, `${member} is invalid; it cannot be a null value.`);
  }
  return patch;
}

/** A held answer is dropped when its client goes away (E-20) or the server stops. */
function callerGone(c: Context, { stopping }: RouteContext): AbortSignal {
  const { signal } = c.req.raw;
  factsOf(c).callerGone = signal;
  return stopping === undefined ? signal : AbortSignal.any([signal, stopping]);
}
