import type { ProxyStatistics } from "../proxy/counts.ts";

export type RecordedCalls = Pick<
  ProxyStatistics,
  | "calls"
  | "failed"
  | "abortedByClient"
  | "repeated"
  | "stale"
  | "callsLost"
  | "spansRejected"
  | "spooledCalls"
> & { refused: { [reason in keyof ProxyStatistics["refused"]]?: number } };

const words = {
  failed: "failed",
  abortedByClient: "left by their client",
  repeated: "tried again by their client",
  stale: "after the end of their attempt",
  callsLost: "not recorded",
  spansRejected: "spans refused by the store",
  spooledCalls: "still on disk for the store",
} satisfies { [name in Exclude<keyof RecordedCalls, "calls" | "refused">]: string };

/** One line about a proxy's calls, with whatever is not as it should be. */
export function describeRecordedCalls(statistics: RecordedCalls): string {
  const refused = Object.values(statistics.refused).reduce((sum, count) => sum + count, 0);
  const parts = Object.entries(words)
    .map(([name, text]) => ({ count: statistics[name as keyof typeof words], text }))
    .concat({ count: refused, text: "refused" })
    .filter(({ count }) => count > 0)
    .map(({ count, text }) => `, ${count} ${text}`);
  return `calls: ${statistics.calls}${parts.join("")}`;
}

/** Whether the record of the calls is worth a line in a run. */
export function hasRecordingTrouble(statistics: RecordedCalls): boolean {
  const { repeated, stale, callsLost, spansRejected, spooledCalls } = statistics;
  return repeated + stale + callsLost + spansRejected + spooledCalls > 0;
}
