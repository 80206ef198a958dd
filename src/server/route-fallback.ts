import type { Context } from "hono";
import { factsOf } from "./request-facts.ts";

export interface Route {
  method: "GET" | "POST";
  /** Hono's notation, for example `/v1/agl/rollouts/:rollout_id`. */
  path: string;
  handle: (c: Context) => Response | Promise<Response>;
}

/** The route's path with the names of its parameters, as metrics show it; `unknown` when there is no such route. */
export function templateOf(c: Context, routes: readonly Route[]): string {
  const route =
    factsOf(c).route ?? routes.find(({ path }) => matches(path.split("/"), c.req.path.split("/")));
  return route === undefined ? "unknown" : templateOfRoute(route);
}

const templates = new WeakMap<Route, string>();

function templateOfRoute(route: Route): string {
  let template = templates.get(route);
  if (template === undefined) {
    template = route.path.replace(/:(\w+)/g, "{$1}");
    templates.set(route, template);
  }
  return template;
}

/** W-5, W-6: 405 with `allow` for a known path, 307 for one with a trailing slash, else 404. */
export function answerOtherwise(c: Context, routes: readonly Route[]): Response {
  const { path } = c.req;
  const allowed = methodsOf(path, routes);
  if (allowed.length > 0) {
    return c.json({ detail: "Method Not Allowed" }, 405, { allow: allowed.join(", ") });
  }
  const slashless = path.replace(/\/$/, "");
  if (slashless !== path && methodsOf(slashless, routes).length > 0) {
    const { pathname, search } = new URL(c.req.url);
    return c.redirect(pathname.replace(/\/$/, "") + search, 307);
  }
  return c.json({ detail: "Not Found" }, 404);
}

function methodsOf(path: string, routes: readonly Route[]): string[] {
  const segments = path.split("/");
  const matching = routes.filter((route) => matches(route.path.split("/"), segments));
  return [...new Set(matching.map(({ method }) => method))].sort();
}

function matches(pattern: readonly string[], segments: readonly string[]): boolean {
  if (pattern.length !== segments.length) return false;
  return pattern.every((part, index) =>
    part.startsWith(":") ? segments[index] !== "" : part === segments[index],
  );
}
