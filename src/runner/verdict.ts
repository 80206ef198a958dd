import type { RunOutcome } from "./agent-worker.ts";
import type { ErrorReport } from "./worker-messages.ts";

/** Why an attempt did not succeed; stored as `reason` in its metadata. */
export type FailureReason =
  | "agent_error"
  | "invalid_reward"
  | "tool_server"
  | "timeout"
  | "cancelled"
  | "resources_missing"
  | "llm_missing"
  | "worker_crashed"
  | "worker_replaced"
  | "store_error"
  | "ended_elsewhere";

export interface Failure {
  /** `none` writes nothing: the store has ended the attempt already. */
  status: "failed" | "timeout" | "none";
  reason: FailureReason;
  error: ErrorReport;
}

export type Verdict = { status: "succeeded"; reward: number | null } | Failure;

export function failed(
  reason: FailureReason,
  message: string,
  status: Failure["status"] = "failed",
): Failure {
  return { status, reason, error: { type: reason, message, stack: "" } };
}

export function verdictOf(outcome: RunOutcome): Verdict {
  if (outcome.kind === "returned") return { status: "succeeded", reward: outcome.reward };
  if (outcome.kind === "threw") {
    return { status: "failed", reason: reasonOf(outcome.error), error: outcome.error };
  }
  return failed(outcome.cause === "neighbour" ? "worker_replaced" : "worker_crashed", outcome.reason);
}

function reasonOf(error: ErrorReport): FailureReason {
  if (error.type === "InvalidRewardError") return "invalid_reward";
  return error.type === "ToolServerError" ? "tool_server" : "agent_error";
}
