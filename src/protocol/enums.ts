export const rolloutStatuses = [
  "queuing",
  "preparing",
  "running",
  "failed",
  "succeeded",
  "cancelled",
  "requeuing",
] as const;
export type RolloutStatus = (typeof rolloutStatuses)[number];

export const attemptStatuses = [
  "preparing",
  "running",
  "failed",
  "succeeded",
  "unresponsive",
  "timeout",
] as const;
export type AttemptStatus = (typeof attemptStatuses)[number];

export const workerStatuses = ["idle", "busy", "unknown"] as const;
export type WorkerStatus = (typeof workerStatuses)[number];

export const modes = ["train", "val", "test"] as const;
export type Mode = (typeof modes)[number];

export const statusCodes = ["UNSET", "OK", "ERROR"] as const;
export type StatusCode = (typeof statusCodes)[number];

export const templateEngines = ["jinja", "f-string", "poml"] as const;

export const finishedStatuses = ["failed", "succeeded", "cancelled"] as const satisfies RolloutStatus[];

export function isFinished(status: RolloutStatus): boolean {
  return (finishedStatuses as readonly RolloutStatus[]).includes(status);
}

/** Of an attempt that is over. */
const endedStatuses: readonly AttemptStatus[] = ["failed", "succeeded", "timeout"];

export function isEnded(status: AttemptStatus): boolean {
  return endedStatuses.includes(status);
}

export function isQueuing(status: RolloutStatus): boolean {
  return status === "queuing" || status === "requeuing";
}
