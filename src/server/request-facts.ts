import type { Context } from "hono";
import type { Route } from "./route-fallback.ts";

/** What is known of a request, found out once. */
export interface RequestFacts {
  /** Headers of every JSON answer. */
  answerHeaders: Record<string, string>;
  /** Undefined until one has been found. */
  route?: Route;
  /** Of a request whose answer may be held: aborted when its client went away. */
  callerGone?: AbortSignal;
}

const name = "facts";

export function setFacts(c: Context, facts: RequestFacts): void {
  c.set(name, facts);
}

export function factsOf(c: Context): RequestFacts {
  return c.get(name) as RequestFacts;
}
