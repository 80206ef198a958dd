import { Hono } from "hono";
import type { Context } from "hono";
import { silentLogger } from "../log.ts";
import type { Logger } from "../log.ts";
import { stringifyJson } from "../protocol/json.ts";
import { type StoreApi, storeIdHeader } from "../protocol/store-api.ts";
import { type AccessRules, guard, pathBehindToken } from "./access.ts";
import { cors } from "./cors.ts";
import { failureOf } from "./failure.ts";
import { measuredStore } from "./metrics/measured-store.ts";
import { StoreMetrics } from "./metrics/store-metrics.ts";
import { observed } from "./observation.ts";
import { factsOf } from "./request-facts.ts";
import { answerOtherwise } from "./route-fallback.ts";
import { storeRoutes } from "./store-routes.ts";

export const defaultMaxBodyBytes = 64 * 1024 * 1024;

export interface StoreAppOptions {
  /** Told to clients by the health answer. */
  storeId?: string;
  maxBodyBytes?: number;
  /** Ends the held answers when the server stops. */
  stopping?: AbortSignal;
  log?: Logger;
  /** Gets a line for every request. */
  accessLog?: Logger | undefined;
  /** Everybody may come in unless this says otherwise. */
  access?: Partial<AccessRules>;
  metrics?: StoreMetrics;
}

/** The store's HTTP API (agentlightning 0.3.0) over any `StoreApi`. */
export function createStoreApp(store: StoreApi & { storeId?: string }, options: StoreAppOptions = {}): Hono {
  const { storeId = store.storeId ?? null, maxBodyBytes = defaultMaxBodyBytes, log = silentLogger } = options;
  const { stopping, accessLog, metrics = new StoreMetrics() } = options;
  const access: AccessRules = { corsOrigins: [], ...options.access };
  const measured = measuredStore(store, metrics);
  const routes = storeRoutes({ store: measured, storeId, maxBodyBytes, stopping, log, metrics });
  const app = new Hono({ getPath: pathBehindToken });
  const answerHeaders = {
    "content-type": "application/json",
    ...(storeId === null ? {} : { [storeIdHeader]: storeId }),
  };

  app.use(observed({ metrics, routes, log, accessLog, answerHeaders }));
  // A preflight shows no token.
  if (access.corsOrigins.length > 0) app.use(cors(access.corsOrigins));
  app.use(guard(access));
  // Hono answers HEAD with GET's handler; the API has no HEAD (W-6).
  app.use(async (c, next) => (c.req.method === "HEAD" ? answerOtherwise(c, routes) : next()));
  for (const route of routes) {
    app.on(route.method, route.path, (c) => {
      factsOf(c).route = route;
      return route.handle(c);
    });
  }
  app.notFound((c) => answerOtherwise(c, routes));
  app.onError((error, c) => answerError(c, error, log));
  return app;
}

function answerError(c: Context, error: Error, log: Logger): Response {
  const { status, detail } = failureOf(error, { path: c.req.path, log });
  return c.body(stringifyJson({ detail }), status, factsOf(c).answerHeaders);
}
