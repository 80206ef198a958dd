import type { Context, MiddlewareHandler } from "hono";

const methods = "GET, POST, OPTIONS";
const preflightSeconds = "600";

/** C-9: with `*`, every origin. */
export function isAllowedOrigin(origin: string, allowed: readonly string[]): boolean {
  return allowed.includes("*") || allowed.includes(origin);
}

/** C-7 to C-10: what browsers ask before a page of another origin may read an answer; other origins are served without it. */
export function cors(allowed: readonly string[]): MiddlewareHandler {
  return async (c, next) => {
    const origin = c.req.header("origin");
    if (origin === undefined) return await next();
    const known = isAllowedOrigin(origin, allowed);
    if (isPreflight(c)) return known ? allowPreflight(c, origin) : refusePreflight(c);
    await next();
    // After the answer is made, refusals and failures among them.
    if (known) for (const [name, value] of Object.entries(headersFor(origin))) c.res.headers.set(name, value);
    c.res.headers.append("vary", "Origin");
  };
}

function isPreflight(c: Context): boolean {
  return c.req.method === "OPTIONS" && c.req.header("access-control-request-method") !== undefined;
}

function headersFor(origin: string): Record<string, string> {
  return {
    "access-control-allow-origin": origin,
    "access-control-allow-credentials": "true",
    "access-control-expose-headers": "*",
  };
}

function allowPreflight(c: Context, origin: string): Response {
  const requested = c.req.header("access-control-request-headers");
  return c.text("OK", 200, {
    ...headersFor(origin),
    "access-control-allow-methods": methods,
    "access-control-max-age": preflightSeconds,
    ...(requested === undefined ? {} : { "access-control-allow-headers": requested }),
    vary: "Origin, Access-Control-Request-Headers",
  });
}

function refusePreflight(c: Context): Response {
  return c.text("Disallowed CORS origin", 400, { vary: "Origin" });
}
