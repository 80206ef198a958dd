import { Hono } from "hono";
import type { Context } from "hono";
import { silentLogger } from "../log.ts";
import type { Logger } from "../log.ts";
import { stringifyJson } from "../protocol/json.ts";
import type { StoreApi } from "../protocol/store-api.ts";
import { failureOf } from "./failure.ts";
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
}

/** The store's HTTP API (agentlightning 0.3.0) over any `StoreApi`. */
export function createStoreApp(store: StoreApi & { storeId?: string }, options: StoreAppOptions = {}): Hono {
  const { storeId = store.storeId ?? null, maxBodyBytes = defaultMaxBodyBytes, log = silentLogger } = options;
  const routes = storeRoutes({ store, storeId, maxBodyBytes, stopping: options.stopping, log });
  const app = new Hono();

  // Hono answers HEAD with GET's handler; the API has no HEAD (W-6).
  app.use(async (c, next) => (c.req.method === "HEAD" ? answerOtherwise(c, routes) : next()));
  for (const { method, path, handle } of routes) app.on(method, path, handle);
  app.notFound((c) => answerOtherwise(c, routes));
  app.onError((error, c) => answerError(c, error, log));
  return app;
}

function answerError(c: Context, error: Error, log: Logger): Response {
  const { status, detail } = failureOf(error, { path: c.req.path, log });
  return c.body(stringifyJson({ detail }), status, { "content-type": "application/json" });
}
