import type { JsonObject } from "../protocol/types.ts";
import type { CallFailure } from "./call-failure.ts";
import { isObject } from "./model-request.ts";

export interface CallEnd {
  answer: JsonObject | null;
  failure: CallFailure | null;
  abortedByClient: boolean;
}

/** Null when the ids are complete and agree with the server's own count; else why they cannot be trusted. */
export function inexactReason({ answer, failure, abortedByClient }: CallEnd): string | null {
  if (abortedByClient) return "aborted_by_client";
  if (failure !== null || answer === null) return "failed";
  if (hasSeveralPrompts(answer)) return "several_prompts";
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

/** A text completion answers a list of prompts with a choice each. */
function hasSeveralPrompts(answer: JsonObject): boolean {
  const prompts = choicesOf(answer)
    .map(({ prompt_token_ids }) => prompt_token_ids)
    .filter(Array.isArray);
  return prompts.some((ids) => ids.join() !== prompts[0]?.join());
}

/** One list per choice; null when the server sent none. */
export function responseTokenIds(answer: JsonObject): unknown[][] | null {
  const lists = choicesOf(answer).map(({ token_ids }) => (Array.isArray(token_ids) ? token_ids : []));
  return lists.some((list) => list.length > 0) ? lists : null;
}

export function isTokenId(id: unknown): id is number {
  return Number.isSafeInteger(id) && (id as number) >= 0;
}
