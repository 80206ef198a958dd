import { attributeKeys } from "../protocol/semconv.ts";
import type { Attributes, Span } from "../protocol/types.ts";
import { member, textOf } from "./opaque.ts";

/** Why the answer never reached the agent as an answer, so that no reward can belong to it. */
export function unusedReason(span: Span): string | null {
  if (span.attributes[attributeKeys.aborted] === true) return "aborted_by_client";
  if (span.attributes[attributeKeys.stale] === true) return "stale";
  return span.status.status_code === "ERROR" ? "failed" : null;
}

export interface RecordedTokens {
  promptIds: number[];
  /** One list per choice. */
  responseIds: number[][];
  usage: unknown;
}

/** Reasons that say nothing against ids which another span of the call has. */
export const missingIds: ReadonlySet<string> = new Set(["no_prompt_token_ids", "no_response_token_ids"]);

/** Why the ids cannot be trusted. */
export function inexactReason(attributes: Attributes, tokens: RecordedTokens): string | null {
  if (attributes[attributeKeys.tokenExact] === false) {
    return textOf(attributes[attributeKeys.inexactReason]) ?? "not_exact";
  }
  if (tokens.promptIds.length === 0) return "no_prompt_token_ids";
  if ((tokens.responseIds[0]?.length ?? 0) === 0) return "no_response_token_ids";
  if (differs(member(tokens.usage, "prompt_tokens"), tokens.promptIds.length)) return "prompt_count_mismatch";
  const total = tokens.responseIds.reduce((sum, ids) => sum + ids.length, 0);
  if (differs(member(tokens.usage, "completion_tokens"), total)) return "response_count_mismatch";
  return null;
}

/** Spans of other writers may carry no usage; only a count that is there can disagree. */
function differs(count: unknown, length: number): boolean {
  return typeof count === "number" && count !== length;
}
