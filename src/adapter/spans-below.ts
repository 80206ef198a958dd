import type { Span } from "../protocol/types.ts";

/** The spans directly below one. */
export type SpansBelow = (span: Span) => readonly Span[];

export function spansBelow(all: readonly Span[]): SpansBelow {
  const byParent = Map.groupBy(all, ({ parent_id }) => parent_id);
  return ({ span_id }) => byParent.get(span_id) ?? [];
}
