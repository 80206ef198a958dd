import type { Span } from "../protocol/types.ts";
import { adaptProxySpans } from "./proxy-adapter.ts";
import { adaptTracerSpans } from "./tracer-adapter.ts";
import type { AdaptedSpans } from "./triplet.ts";

/** Whose spans are read: the recording proxy's, or those of a tracer beside the agent. */
export function namedAdapter(name: "proxy" | "tracer"): (spans: readonly Span[]) => AdaptedSpans {
  return name === "tracer" ? (spans) => adaptTracerSpans(spans) : (spans) => adaptProxySpans(spans);
}
