import type { Span } from "../protocol/types.ts";
import { adaptProxySpans } from "./proxy-adapter.ts";
import { type AdaptedMessages, adaptMessages } from "./messages-adapter.ts";
import { adaptTracerSpans } from "./tracer-adapter.ts";
import type { AdaptedSpans } from "./triplet.ts";

/** Makes calls with their rewards of the spans of one attempt. */
export type TraceAdapter = (spans: readonly Span[]) => AdaptedSpans;

/** Makes conversations of the spans of one attempt, whoever recorded them. */
export type MessagesAdapter = (spans: readonly Span[]) => AdaptedMessages;

export const messagesAdapter: MessagesAdapter = (spans) => adaptMessages(spans);

/** Each reads its own spans, so an attempt that both a proxy and a tracer recorded counts once. */
export const traceAdapters = {
  proxy: (spans) => adaptProxySpans(spans),
  tracer: (spans) => adaptTracerSpans(spans),
} satisfies { [name: string]: TraceAdapter };
