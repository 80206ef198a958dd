import { readStructured } from "../protocol/python-literal.ts";
import { attributeKeys, spanNames } from "../protocol/semconv.ts";
import type { Attributes, Span } from "../protocol/types.ts";

/** What one span of a proxied call says about it. */
export interface CallEvidence {
  /** From the verbatim span, which only answered calls have. */
  isRaw: boolean;
  sequenceId: number;
  responseId: string | null;
  promptIds: number[];
  /** Choice 0. */
  responseIds: number[];
  checkpoint: string | null;
  finishReason: string | null;
  /** The answer never reached the agent as an answer: no reward can belong to it. */
  unusedReason: string | null;
  /** The ids are missing or not exact. */
  inexactReason: string | null;
}

/** Null for spans that are not about a model call. */
export function callEvidence(span: Span): CallEvidence | null {
  const isRaw = span.name === spanNames.rawRequest;
  if (!isRaw && span.name !== spanNames.litellmRequest) return null;
  const tokens =
    span.name === spanNames.rawRequest ? rawTokens(span.attributes) : flatTokens(span.attributes);
  return {
    isRaw,
    sequenceId: span.sequence_id,
    responseId: tokens.responseId,
    promptIds: tokens.promptIds,
    responseIds: tokens.responseIds[0] ?? [],
    checkpoint: textOf(span.attributes[attributeKeys.checkpoint]),
    finishReason: tokens.finishReason,
    unusedReason: unusedReason(span),
    inexactReason: inexactReason(span.attributes, tokens),
  };
}

interface Tokens {
  responseId: string | null;
  promptIds: number[];
  responseIds: number[][];
  finishReason: string | null;
  usage: unknown;
}

const rawKey = /^llm\.([^.]+)\.(?:prompt_token_ids|response_token_ids|choices|id)$/;

function rawTokens(attributes: Attributes): Tokens {
  const provider = Object.keys(attributes)
    .map((key) => rawKey.exec(key)?.[1])
    .find((name) => name !== undefined);
  const read = (key: string) => readStructured(attributes[`llm.${provider}.${key}`]);
  const choices = arrayOf(read("choices"));
  const first = choices[0];
  return {
    responseId: textOf(attributes[attributeKeys.responseId]) ?? textOf(attributes[`llm.${provider}.id`]),
    promptIds: tokenIds(read("prompt_token_ids")) ?? tokenIds(member(first, "prompt_token_ids")) ?? [],
    responseIds: responseLists(read("response_token_ids")) ?? choices.map(choiceTokens),
    finishReason: textOf(member(first, "finish_reason")),
    usage: read("usage"),
  };
}

function flatTokens(attributes: Attributes): Tokens {
  return {
    responseId: textOf(attributes[attributeKeys.responseId]),
    promptIds: tokenIds(readStructured(attributes.prompt_token_ids)) ?? [],
    responseIds: responseLists(readStructured(attributes.response_token_ids)) ?? [],
    finishReason: textOf(attributes["gen_ai.completion.0.finish_reason"]),
    usage: {
      prompt_tokens: attributes["gen_ai.usage.prompt_tokens"] ?? attributes["gen_ai.usage.input_tokens"],
      completion_tokens:
        attributes["gen_ai.usage.completion_tokens"] ?? attributes["gen_ai.usage.output_tokens"],
    },
  };
}

function choiceTokens(choice: unknown): number[] {
  return (
    tokenIds(member(choice, "token_ids")) ??
    tokenIds(member(member(choice, "provider_specific_fields"), "token_ids")) ??
    []
  );
}

/** One list per choice; a flat list is the list of the only choice. */
function responseLists(value: unknown): number[][] | null {
  if (!Array.isArray(value) || value.length === 0) return null;
  if (Array.isArray(value[0])) return value.map((list) => tokenIds(list) ?? []);
  const flat = tokenIds(value);
  return flat === null ? null : [flat];
}

function tokenIds(value: unknown): number[] | null {
  return Array.isArray(value) && value.every((id) => Number.isSafeInteger(id) && id >= 0) ? value : null;
}

function unusedReason(span: Span): string | null {
  if (span.attributes[attributeKeys.aborted] === true) return "aborted_by_client";
  if (span.attributes[attributeKeys.stale] === true) return "stale";
  return span.status.status_code === "ERROR" ? "failed" : null;
}

function inexactReason(attributes: Attributes, tokens: Tokens): string | null {
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

function textOf(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

function arrayOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function member(value: unknown, key: string): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
  return (value as { [key: string]: unknown })[key];
}
