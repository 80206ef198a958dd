import type { JsonObject } from "../protocol/types.ts";
import type { ChatRequest } from "./chat-request.ts";
import { isObject } from "./chat-request.ts";
import type { Upstream } from "./upstreams.ts";

/** Whose call it is, and its place among the spans of the rollout. */
export interface CallIdentity {
  rolloutId: string;
  attemptId: string;
  sequenceId: number;
  /** The attempt had already ended when the call came. */
  stale: boolean;
}

export interface CallFailure {
  /** The server's status, when it answered. */
  status: number | null;
  type: string;
  message: string;
}

/** Everything there is to say about one call, once it is over. */
export interface CallRecord {
  identity: CallIdentity;
  upstream: Upstream;
  request: ChatRequest;
  /** The JSON sent to the model server. */
  requestText: string;
  /** The JSON of the answer; put together from the chunks of a stream. Null when there is none. */
  answerText: string | null;
  answer: JsonObject | null;
  failure: CallFailure | null;
  abortedByClient: boolean;
  /** Unix seconds. */
  startTime: number;
  endTime: number;
}

/** Null when the ids are complete and agree with the server's own count; else why they cannot be trusted. */
export function inexactReason(
  record: Pick<CallRecord, "answer" | "abortedByClient" | "failure">,
): string | null {
  const { answer } = record;
  if (record.abortedByClient) return "aborted_by_client";
  if (record.failure !== null || answer === null) return "failed";
  const promptIds = promptTokenIds(answer);
  const responses = responseTokenIds(answer);
  if (promptIds === null) return "no_prompt_token_ids";
  if (responses === null || (responses[0] ?? []).length === 0) return "no_response_token_ids";
  if (![promptIds, ...responses].every((ids) => ids.every(isTokenId))) return "invalid_token_ids";
  if (!choicesOf(answer).every((choice) => typeof choice.finish_reason === "string"))
    return "unfinished_answer";
  const usage = isObject(answer.usage) ? answer.usage : {};
  if (typeof usage.prompt_tokens !== "number" || typeof usage.completion_tokens !== "number")
    return "no_usage";
  if (usage.prompt_tokens !== promptIds.length) return "prompt_count_mismatch";
  const total = responses.reduce((sum, ids) => sum + ids.length, 0);
  return usage.completion_tokens === total ? null : "response_count_mismatch";
}

export function choicesOf(answer: JsonObject): JsonObject[] {
  return Array.isArray(answer.choices) ? answer.choices.filter(isObject) : [];
}

export function promptTokenIds(answer: JsonObject): unknown[] | null {
  const ids = answer.prompt_token_ids ?? choicesOf(answer)[0]?.prompt_token_ids;
  return Array.isArray(ids) && ids.length > 0 ? ids : null;
}

/** One list per choice; null when the server sent none. */
export function responseTokenIds(answer: JsonObject): unknown[][] | null {
  const lists = choicesOf(answer).map(({ token_ids }) => (Array.isArray(token_ids) ? token_ids : []));
  return lists.some((list) => list.length > 0) ? lists : null;
}

function isTokenId(id: unknown): boolean {
  return Number.isSafeInteger(id) && (id as number) >= 0;
}
