import type { Span } from "../protocol/types.ts";

/** By sequence id, then start. With a stable sort, equal spans keep the order they came in. */
export function byOrder(one: Span, other: Span): number {
  const difference = one.sequence_id - other.sequence_id;
  if (difference !== 0) return difference;
  const [start, otherStart] = [one.start_time ?? Infinity, other.start_time ?? Infinity];
  return start === otherStart ? 0 : start - otherStart;
}
