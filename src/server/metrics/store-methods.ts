import type { StoreApi } from "../../protocol/store-api.ts";

interface Method {
  /** Upstream's name of the operation. */
  name: string;
  collection: string;
  operation: "insert" | "update" | "upsert" | "get" | "query" | "dequeue" | "count";
}

/** Every operation by upstream's name, and what it is about. */
export const storeMethods: { readonly [Name in keyof StoreApi]: Method } = {
  enqueueRollouts: { name: "enqueue_many_rollouts", collection: "rollouts", operation: "insert" },
  dequeueRollouts: { name: "dequeue_many_rollouts", collection: "rollout_queue", operation: "dequeue" },
  startRollout: { name: "start_rollout", collection: "rollouts", operation: "insert" },
  startAttempt: { name: "start_attempt", collection: "attempts", operation: "insert" },
  queryRollouts: { name: "query_rollouts", collection: "rollouts", operation: "query" },
  getRollout: { name: "get_rollout_by_id", collection: "rollouts", operation: "get" },
  updateRollout: { name: "update_rollout", collection: "rollouts", operation: "update" },
  waitForRollouts: { name: "wait_for_rollouts", collection: "rollouts", operation: "query" },
  queryAttempts: { name: "query_attempts", collection: "attempts", operation: "query" },
  getLatestAttempt: { name: "get_latest_attempt", collection: "attempts", operation: "get" },
  updateAttempt: { name: "update_attempt", collection: "attempts", operation: "update" },
  queryResources: { name: "query_resources", collection: "resources", operation: "query" },
  addResources: { name: "add_resources", collection: "resources", operation: "insert" },
  updateResources: { name: "update_resources", collection: "resources", operation: "upsert" },
  getResources: { name: "get_resources_by_id", collection: "resources", operation: "get" },
  getLatestResources: { name: "get_latest_resources", collection: "resources", operation: "get" },
  addSpan: { name: "add_span", collection: "spans", operation: "insert" },
  addSpans: { name: "add_many_spans", collection: "spans", operation: "insert" },
  querySpans: { name: "query_spans", collection: "spans", operation: "query" },
  nextSequenceId: { name: "get_next_span_sequence_id", collection: "span_sequence_ids", operation: "update" },
  nextSequenceIds: {
    name: "get_many_span_sequence_ids",
    collection: "span_sequence_ids",
    operation: "update",
  },
  queryWorkers: { name: "query_workers", collection: "workers", operation: "query" },
  getWorker: { name: "get_worker_by_id", collection: "workers", operation: "get" },
  updateWorker: { name: "update_worker", collection: "workers", operation: "upsert" },
  statistics: { name: "statistics", collection: "rollouts", operation: "count" },
};

const scan: Method = { name: "_scan_for_unhealthy_rollouts", collection: "rollouts", operation: "query" };
const byName = new Map([...Object.values(storeMethods), scan].map((method) => [method.name, method]));

export function collectionsOf(name: string): Pick<Method, "collection" | "operation"> {
  return byName.get(name) ?? scan;
}
