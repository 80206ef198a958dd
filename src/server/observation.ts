import type { Context, MiddlewareHandler } from "hono";
import type { Logger } from "../log.ts";
import type { StoreMetrics } from "./metrics/store-metrics.ts";
import { factsOf, setFacts } from "./request-facts.ts";
import { type Route, templateOf } from "./route-fallback.ts";

export interface ObservationOptions {
  metrics: StoreMetrics;
  routes: readonly Route[];
  log: Logger;
  /** Gets a line for every request. */
  accessLog?: Logger | undefined;
  answerHeaders: Record<string, string>;
}

const methods = new Set(["GET", "POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"]);

/** Counts every request, however it ends, and writes the access log. Paths are shown without the token before them. */
export function observed(options: ObservationOptions): MiddlewareHandler {
  const { metrics, routes, log, accessLog, answerHeaders } = options;
  let turnedAway = 0;
  return async (c, next) => {
    const started = performance.now();
    setFacts(c, { answerHeaders });
    await next();
    const milliseconds = performance.now() - started;
    const { method, path } = c.req;
    const status = statusLabel(c);
    // Names that clients make up would be series without end.
    const shownMethod = methods.has(method) ? method : "OTHER";
    metrics.request(templateOf(c, routes), shownMethod, status, milliseconds / 1000);
    if (c.res.status === 401 || c.res.status === 403) {
      // A stranger must not be able to fill the log.
      const fields = { status: c.res.status, method, path, from: senderOf(c), turned_away: ++turnedAway };
      if (turnedAway % 1_000 === 1)
        log.warning("requests are turned away; of a thousand one is told", fields);
    }
    const ms = Math.round(milliseconds * 10) / 10;
    accessLog?.info(`${method} ${path}`, { status, ms, from: senderOf(c) });
  };
}

/** Section 8.4: the code; 499 when nobody was left to read the answer; the class of the error behind a 500. */
function statusLabel(c: Context): string {
  if (factsOf(c).callerGone?.aborted === true) return "499";
  if (c.res.status === 500 && c.error !== undefined) return c.error.constructor.name;
  return String(c.res.status);
}

/** As Bun's server knows it; there is none when the app is asked without a port. */
function senderOf(c: Context): string {
  const { server } = (c.env ?? {}) as { server?: Bun.Server<unknown> };
  return server?.requestIP(c.req.raw)?.address ?? "unknown";
}
