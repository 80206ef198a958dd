import type { Attempt, Worker } from "../../protocol/types.ts";

/** What the rules read and write of a worker; its statistics are never touched. */
export type WorkerState = Omit<Worker, "heartbeat_stats">;

/** K-1: a worker nobody has named before. */
export function newWorker(workerId: string): WorkerState & { heartbeat_stats: null } {
  return {
    worker_id: workerId,
    status: "unknown",
    heartbeat_stats: null,
    last_heartbeat_time: null,
    last_dequeue_time: null,
    last_busy_time: null,
    last_idle_time: null,
    current_rollout_id: null,
    current_attempt_id: null,
  };
}

/** K-2: the worker follows its attempt. */
export function syncedWorker<State extends WorkerState>(
  worker: State,
  attempt: Pick<Attempt, "rollout_id" | "attempt_id" | "status">,
  now: number,
): State {
  switch (attempt.status) {
    case "preparing":
    case "running":
      return {
        ...worker,
        status: "busy",
        last_busy_time: now,
        current_rollout_id: attempt.rollout_id,
        current_attempt_id: attempt.attempt_id,
      };
    case "succeeded":
    case "failed":
      return released(worker, "idle", now);
    case "timeout":
    case "unresponsive":
      return released(worker, "unknown", now);
  }
}

/** K-5: a dequeue that found nothing leaves the worker idle and without an assignment. */
export function workerAfterEmptyDequeue<State extends WorkerState>(worker: State, now: number): State {
  const idle = worker.status === "idle" ? worker : released(worker, "idle", now);
  return { ...idle, last_dequeue_time: now };
}

function released<State extends WorkerState>(worker: State, status: "idle" | "unknown", now: number): State {
  return { ...worker, status, last_idle_time: now, current_rollout_id: null, current_attempt_id: null };
}
