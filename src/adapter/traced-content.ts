import { readStructured } from "../protocol/python-literal.ts";
import { attributeKeys } from "../protocol/semconv.ts";
import type { Attributes, Span } from "../protocol/types.ts";
import type { RecordedTokens } from "./call-marks.ts";
import { usageAttributes, usageMembers } from "./call-usage.ts";
import { choiceCount } from "./choice-count.ts";
import { conversationOf } from "./conversation.ts";
import { finishReasonOf } from "./finish-reason.ts";
import { isChoice } from "./flat-conversation.ts";
import { arrayOf, member, textOf } from "./opaque.ts";
import { choiceTokens, responseLists, tokenIds } from "./token-ids.ts";
import { numberedItems, unflatten } from "./unflatten.ts";

/** What the span of a call made on the agent's side says about it. */
export interface TracedContent extends RecordedTokens {
  responseId: string | null;
  finishReason: string | null;
  prompt: unknown;
  response: unknown;
  imageUrls: string[];
  /** Undefined: the span has none. */
  logprobs: unknown;
  request: unknown;
  /** What is said about the answer beside its text and ids. */
  answer: unknown;
}

const operation = "agentlightning.operation";

export function tracedContent(span: Span): TracedContent {
  const { attributes } = span;
  const input = unflatten(attributes, `${operation}.input`);
  const output = unflatten(attributes, `${operation}.output`);
  const told = conversationOf([span]);
  const prompt =
    unflatten(attributes, "gen_ai.prompt") ??
    readStructured(member(input, "messages")) ??
    (told.messages.length === 0 ? null : told.messages);
  const choices = readStructured(member(output, "choices"));
  const response =
    unflatten(attributes, "gen_ai.completion") ?? choices ?? (told.answer === null ? null : [told.answer]);
  const logprobs = attributes["logprobs.content"];
  return {
    responseId: textOf(attributes[attributeKeys.responseId]) ?? textOf(attributes[`${operation}.output.id`]),
    promptIds:
      tokenIds(readStructured(attributes["prompt_token_ids"])) ??
      tokenIds(readStructured(member(output, "prompt_token_ids"))) ??
      [],
    responseIds:
      responseLists(readStructured(attributes["response_token_ids"])) ??
      responseLists(readStructured(member(output, "response_token_ids"))) ??
      arrayOf(choices).map(choiceTokens),
    usage: usageOf(attributes, output, response),
    finishReason:
      textOf(member(arrayOf(response)[0], "finish_reason")) ?? told.finishReason ?? finishReasonOf([span]),
    prompt,
    response,
    imageUrls: imageUrlsOf(prompt),
    logprobs: logprobs === undefined ? undefined : readStructured(logprobs),
    request: unflatten(attributes, "gen_ai.request") ?? nullWhenEmpty(without(input, ["messages"])),
    answer:
      unflatten(attributes, "gen_ai.response") ??
      without(output, ["choices", "prompt_token_ids", "response_token_ids"]),
  };
}

/** The ids of a call are those of its first choice, so with several its count of response tokens says nothing. */
function usageOf(attributes: Attributes, output: unknown, response: unknown): RecordedTokens["usage"] {
  const [named, returned] = [usageAttributes(attributes), usageMembers(member(output, "usage"))];
  const prompt_tokens = named.prompt_tokens ?? returned.prompt_tokens;
  if (Math.max(choiceCount(attributes), arrayOf(response).filter(isChoice).length) > 1)
    return { prompt_tokens };
  return { prompt_tokens, completion_tokens: named.completion_tokens ?? returned.completion_tokens };
}

function without(value: unknown, names: string[]): object | null {
  if (typeof value !== "object" || value === null) return null;
  return Object.fromEntries(Object.entries(value).filter(([name]) => !names.includes(name)));
}

function nullWhenEmpty(value: object | null): object | null {
  return value === null || Object.keys(value).length === 0 ? null : value;
}

function imageUrlsOf(prompt: unknown): string[] {
  return numberedItems(prompt)
    .flatMap((message) => numberedItems(readStructured(member(message, "content"))))
    .map((part) => textOf(member(member(part, "image_url"), "url")))
    .filter((url) => url !== null);
}
