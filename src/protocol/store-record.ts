import type { Attempt, ResourcesUpdate, Rollout, Span, Worker } from "./types.ts";

/** What a store is made of, in an order in which each belongs only to what stands before it. */
export const recordKinds = ["resources", "rollout", "attempt", "span", "worker"] as const;
export type RecordKind = (typeof recordKinds)[number];

export type StoreRecord =
  | { kind: "resources"; value: ResourcesUpdate }
  | { kind: "rollout"; value: Rollout }
  | { kind: "attempt"; value: Attempt }
  | { kind: "span"; value: Span }
  | { kind: "worker"; value: Worker };

/** Its id, with those of what it belongs to. */
export function nameOf({ kind, value }: StoreRecord): string {
  switch (kind) {
    case "resources":
      return `resources ${value.resources_id}`;
    case "rollout":
      return `rollout ${value.rollout_id}`;
    case "attempt":
      return `attempt ${value.attempt_id} of rollout ${value.rollout_id}`;
    case "span":
      return `span ${value.span_id} of attempt ${value.attempt_id} of rollout ${value.rollout_id}`;
    case "worker":
      return `worker ${value.worker_id}`;
  }
}
