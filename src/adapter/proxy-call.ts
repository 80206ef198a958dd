import { readStructured } from "../protocol/python-literal.ts";
import { attributeKeys, spanNames } from "../protocol/semconv.ts";
import type { Attributes, Span } from "../protocol/types.ts";
import { inexactReason, missingIds, type RecordedTokens, unusedReason } from "./call-marks.ts";
import { rawUsage, usageAttributes } from "./call-usage.ts";
import { choiceCount } from "./choice-count.ts";
import { isProxiedCall } from "./model-call-span.ts";
import { arrayOf, member, textOf } from "./opaque.ts";
import { rawProvider } from "./raw-provider.ts";
import { choiceTokens, responseLists, tokenIds } from "./token-ids.ts";

/** What one span of a proxied call says about it. */
export interface CallEvidence {
  /** From the verbatim span, which only answered calls have. */
  isRaw: boolean;
  /** Among the ordered spans. */
  position: number;
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
  /** The same, unless they are only missing here. */
  contradiction: string | null;
}

/** Null for spans that are not about a model call. */
export function callEvidence(span: Span, position: number): CallEvidence | null {
  const isRaw = span.name === spanNames.rawRequest;
  if (!isProxiedCall(span)) return null;
  const tokens = isRaw ? rawTokens(span.attributes) : flatTokens(span.attributes);
  const reason = inexactReason(span.attributes, tokens);
  return {
    isRaw,
    position,
    sequenceId: span.sequence_id,
    responseId: tokens.responseId,
    promptIds: tokens.promptIds,
    responseIds: tokens.responseIds[0] ?? [],
    checkpoint: textOf(span.attributes[attributeKeys.checkpoint]),
    finishReason: tokens.finishReason,
    unusedReason: unusedReason(span),
    inexactReason: reason,
    contradiction: reason !== null && missingIds.has(reason) ? null : reason,
  };
}

interface Tokens extends RecordedTokens {
  responseId: string | null;
  finishReason: string | null;
}

function rawTokens(attributes: Attributes): Tokens {
  const provider = rawProvider(attributes);
  const read = (key: string) => readStructured(attributes[`llm.${provider}.${key}`]);
  const choices = arrayOf(read("choices"));
  const first = choices[0];
  return {
    responseId: textOf(attributes[attributeKeys.responseId]) ?? textOf(attributes[`llm.${provider}.id`]),
    promptIds: tokenIds(read("prompt_token_ids")) ?? tokenIds(member(first, "prompt_token_ids")) ?? [],
    responseIds: responseLists(read("response_token_ids")) ?? choices.map(choiceTokens),
    finishReason: textOf(member(first, "finish_reason")),
    usage: rawUsage(attributes),
  };
}

function flatTokens(attributes: Attributes): Tokens {
  const { prompt_tokens, completion_tokens } = usageAttributes(attributes);
  return {
    responseId: textOf(attributes[attributeKeys.responseId]),
    promptIds: tokenIds(readStructured(attributes.prompt_token_ids)) ?? [],
    responseIds: responseLists(readStructured(attributes.response_token_ids)) ?? [],
    finishReason: textOf(attributes["gen_ai.completion.0.finish_reason"]),
    // The list is that of the first choice; the count is that of all.
    usage: choiceCount(attributes) > 1 ? { prompt_tokens } : { prompt_tokens, completion_tokens },
  };
}
