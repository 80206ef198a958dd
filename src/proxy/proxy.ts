import { type Context, Hono } from "hono";
import type { DirectFetch } from "../client/loopback-fetch.ts";
import { messageOf } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { StoreApi } from "../protocol/store-api.ts";
import { CallDoors, type NamedAttempt } from "./call-doors.ts";
import type { ProxyStatistics } from "./counts.ts";
import { errorAnswer } from "./error-answer.ts";
import { passedRoutes } from "./routes/pass-through.ts";
import { recordedRoutes } from "./routes/recorded-routes.ts";
import type { Upstream } from "./servers/upstreams.ts";

export type SpanSink = Pick<StoreApi, "nextSequenceIds" | "addSpans" | "queryAttempts">;

export interface ProxyOptions {
  store: SpanSink;
  upstreams?: Upstream[];
  log?: Logger;
  /** Unix milliseconds. */
  now?: () => number;
  /** At least 0, below 1: picks among upstreams of one name for calls of no rollout. */
  random?: () => number;
  /** How long a call waits for a model server that is away or gets new weights; 0 when absent. */
  holdMs?: number;
  maxHeldCalls?: number;
  maxHeldBytes?: number;
  /** Before a model server that has failed is tried again; grows each time. */
  firstPauseMs?: number;
  /** For health checks, and for calls to servers that are not on this machine. */
  fetch?: DirectFetch;
  maxBodyBytes?: number;
  maxAnswerBytes?: number;
  firstByteTimeoutMs?: number;
  attemptFlushTimeoutMs?: number;
  /** Where recorded calls wait while the store is away, up to a limit; without it, they wait in memory. */
  spool?: { folder: string; store: string; maxBytes: number };
  /** How many calls may wait in memory. */
  maxWaitingCalls?: number;
  /** What happens at the limit: new calls are refused, or the calls that cannot be kept are lost and counted. */
  whenFull?: "refuse" | "drop";
  /** How long the store may take before calls are recorded without it. */
  storePatienceMs?: number;
}

export interface RecordingProxy {
  app: Hono;
  /** The same as the app's. Chat completions of an attempt, which nearly all calls are, get there without its router. */
  fetch(request: Request): Response | Promise<Response>;
  /** Atomic and live: calls in flight finish where they are. With an empty list, calls are held, then get 503. */
  setUpstreams(list: Upstream[]): void;
  statistics(): ProxyStatistics;
  /** Returns when every call so far is stored, or, with a warning, when the time is up. */
  flush(deadlineMs: number): Promise<void>;
  /** Calls that wait for a model server are refused now, for their connections are about to end. */
  refuseHeld(): void;
  /** Refuses new calls; what the store has not taken by then stays on disk, or is lost, counted and logged. */
  close(): Promise<void>;
}

export function createProxy(options: ProxyOptions): RecordingProxy {
  const doors = new CallDoors(options);
  const app = proxyApp(doors);
  return {
    app,
    fetch: (request) => {
      const attempt = request.method === "POST" ? chatPath.exec(request.url) : null;
      if (attempt === null) return app.fetch(request);
      const [, rolloutId = "", attemptId = ""] = attempt;
      const named = { rolloutId, attemptId };
      return doors.record(request, named, chatCompletions).catch((error) => internalError(doors, error));
    },
    setUpstreams: (list) => doors.upstreams.set(list),
    statistics: () => doors.statistics(),
    flush: (deadlineMs) => doors.flush(deadlineMs),
    refuseHeld: () => doors.refuseHeld(),
    close: async () => doors.close(),
  };
}

/** As clients write it; whatever is written otherwise goes through the router. */
const chatPath = /^http:\/\/[^/]+\/rollout\/([\w-]+)\/attempt\/([\w-]+)\/v1\/chat\/completions$/;
const chatCompletions = recordedRoutes["chat/completions"];

/** Base URLs come with and without `/v1`, with and without the attempt, so every route has four addresses. */
function proxyApp(doors: CallDoors): Hono {
  const app = new Hono();
  app.get("/health", (context) => context.json({ status: "ok" }));
  app.get("/statistics", (context) => context.json(doors.statistics()));
  const attempt = "/rollout/:rolloutId/attempt/:attemptId";
  app.post(`${attempt}/flush`, (context) => doors.flushAttempt(context));
  for (const prefix of ["", attempt]) {
    for (const version of ["/v1", ""]) {
      app.get(`${prefix}${version}/models`, (context) => doors.models(context));
      for (const [route, choose] of Object.entries(recordedRoutes)) {
        app.post(`${prefix}${version}/${route}`, (context) =>
          doors.record(context.req.raw, attemptOf(context), choose),
        );
      }
      for (const route of passedRoutes) {
        app.post(`${prefix}${version}/${route}`, (context) =>
          doors.pass(context.req.raw, attemptOf(context), route),
        );
      }
    }
  }
  app.notFound((context) =>
    errorAnswer(404, "not_found", `there is no ${context.req.method} ${context.req.path}`),
  );
  app.onError((error) => internalError(doors, error));
  return app;
}

function attemptOf({ req }: Context): NamedAttempt {
  const { rolloutId, attemptId } = req.param() as NamedAttempt;
  return { rolloutId, attemptId };
}

function internalError({ surroundings: { log } }: CallDoors, error: unknown): Response {
  const stack = error instanceof Error ? error.stack : undefined;
  log.error("a request failed", { error: stack ?? messageOf(error) });
  return errorAnswer(500, "internal_error", "the proxy failed; its log says why");
}
