import type { Span } from "../protocol/types.ts";
import type { CallGroup } from "./call-groups.ts";

/** Calls that a proxy saw and no tracer yet, to be found by their time: of what has no id, nothing else tells. */
export class UnseenTwins {
  /** By start. */
  readonly #calls: { group: CallGroup; start: number; end: number }[];
  readonly #seen = new Set<CallGroup>();

  constructor(proxied: readonly CallGroup[]) {
    this.#calls = proxied
      .map((group) => ({ group, ...timesOf(group.spans) }))
      .sort((one, other) => one.start - other.start);
  }

  markSeen(group: CallGroup): void {
    this.#seen.add(group);
  }

  /** What the proxy saw of a call lies within the time that the agent waited for it. */
  within({ start_time, end_time }: Span): CallGroup | undefined {
    if (start_time === null || end_time === null) return undefined;
    for (let index = this.#firstFrom(start_time); index < this.#calls.length; index += 1) {
      const { group, start, end } = this.#calls[index] as { group: CallGroup; start: number; end: number };
      if (start > end_time) return undefined;
      if (end <= end_time && !this.#seen.has(group)) return group;
    }
    return undefined;
  }

  #firstFrom(time: number): number {
    let [low, high] = [0, this.#calls.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#calls[middle]?.start ?? Infinity) < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** A call without times lies nowhere. */
function timesOf(spans: readonly Span[]): { start: number; end: number } {
  const starts = spans.map(({ start_time }) => start_time).filter((time) => time !== null);
  const ends = spans.map(({ end_time }) => end_time).filter((time) => time !== null);
  if (starts.length === 0 || ends.length === 0) return { start: Infinity, end: Infinity };
  return { start: Math.min(...starts), end: Math.max(...ends) };
}
