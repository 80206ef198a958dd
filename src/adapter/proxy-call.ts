import { readStructured } from "../protocol/python-literal.ts";
import { attributeKeys, spanNames } from "../protocol/semconv.ts";
import type { Attributes, Span } from "../protocol/types.ts";
import { inexactReason, type RecordedTokens, unusedReason } from "./call-marks.ts";
import { arrayOf, member, textOf } from "./opaque.ts";
import { choiceTokens, responseLists, tokenIds } from "./token-ids.ts";

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

interface Tokens extends RecordedTokens {
  responseId: string | null;
  finishReason: string | null;
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
