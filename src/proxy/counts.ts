import type { DeliveryStatistics } from "./servers/delivery.ts";
import type { RecorderStatistics } from "./recording/recorder.ts";

export const refusals = [
  "bad_request",
  "unknown_model",
  "unknown_attempt",
  "no_upstream",
  "too_many_held",
  "store_unavailable",
  "recording_backlog",
  "closed",
] as const;
export type Refusal = (typeof refusals)[number];

/** What the proxy did since it was made. */
export interface ProxyCounts {
  /** Recorded calls, refused ones included. */
  calls: number;
  streamed: number;
  failed: number;
  /** Those calls, by the type of their failure. */
  failedBy: { [type: string]: number };
  abortedByClient: number;
  /** Calls to attempts that had already ended. */
  stale: number;
  /** Calls that a client tried again. */
  repeated: number;
  /** Answered calls whose ids cannot be trusted, by reason. */
  inexact: { [reason: string]: number };
  /** Calls that name no attempt: forwarded, not recorded. */
  unattributed: number;
  /** Calls of other routes, forwarded and not recorded, by route. */
  unrecorded: { [route: string]: number };
  refused: { [reason in Refusal]: number };
}

export type ProxyStatistics = ProxyCounts & RecorderStatistics & DeliveryStatistics;

export function createCounts(): ProxyCounts {
  return {
    calls: 0,
    streamed: 0,
    failed: 0,
    failedBy: {},
    abortedByClient: 0,
    stale: 0,
    repeated: 0,
    inexact: {},
    unattributed: 0,
    unrecorded: {},
    refused: Object.fromEntries(refusals.map((reason) => [reason, 0])) as ProxyCounts["refused"],
  };
}

export function countIn(counts: { [key: string]: number }, key: string): void {
  counts[key] = (counts[key] ?? 0) + 1;
}
