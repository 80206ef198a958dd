import type { Span } from "../protocol/types.ts";

/** By sequence id, then start. With a stable sort, equal spans keep the order they came in. */
export function byOrder(one: Span, other: Span): number {
  const difference = one.sequence_id - other.sequence_id;
  if (difference !== 0) return difference;
  const [start, otherStart] = [one.start_time ?? Infinity, other.start_time ?? Infinity];
  return start === otherStart ? 0 : start - otherStart;
}

/** In order, each once: exporters send again what they are not sure of. */
export function orderedOnce(spans: readonly Span[]): Span[] {
  const seen = new Set<string>();
  return spans.toSorted(byOrder).filter(({ trace_id, span_id, name, sequence_id }) => {
    if (span_id === "") return true;
    const key = [trace_id, span_id, sequence_id, name].join(" ");
    return !seen.has(key) && seen.add(key);
  });
}
