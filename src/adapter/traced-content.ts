import { readStructured } from "../protocol/python-literal.ts";
import { attributeKeys } from "../protocol/semconv.ts";
import type { Attributes } from "../protocol/types.ts";
import type { RecordedTokens } from "./call-marks.ts";
import { arrayOf, member, textOf } from "./opaque.ts";
import { choiceTokens, responseLists, tokenIds } from "./token-ids.ts";
import { unflatten } from "./unflatten.ts";

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

export function tracedContent(attributes: Attributes): TracedContent {
  const input = unflatten(attributes, `${operation}.input`);
  const output = unflatten(attributes, `${operation}.output`);
  const prompt = unflatten(attributes, "gen_ai.prompt") ?? readStructured(member(input, "messages")) ?? null;
  const choices = readStructured(member(output, "choices"));
  const response = unflatten(attributes, "gen_ai.completion") ?? choices ?? null;
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
    finishReason: textOf(member(arrayOf(response)[0], "finish_reason")),
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
  const usage = member(output, "usage");
  const prompt_tokens =
    attributes["gen_ai.usage.prompt_tokens"] ??
    attributes["gen_ai.usage.input_tokens"] ??
    member(usage, "prompt_tokens");
  if (choiceCount(response) > 1) return { prompt_tokens };
  const completion_tokens =
    attributes["gen_ai.usage.completion_tokens"] ??
    attributes["gen_ai.usage.output_tokens"] ??
    member(usage, "completion_tokens");
  return { prompt_tokens, completion_tokens };
}

/** Some writers number tool calls among the completions; those have neither role nor finish reason. */
function choiceCount(response: unknown): number {
  return arrayOf(response).filter(
    (choice) => member(choice, "finish_reason") !== undefined || member(choice, "role") !== undefined,
  ).length;
}

function without(value: unknown, names: string[]): object | null {
  if (typeof value !== "object" || value === null) return null;
  return Object.fromEntries(Object.entries(value).filter(([name]) => !names.includes(name)));
}

function nullWhenEmpty(value: object | null): object | null {
  return value === null || Object.keys(value).length === 0 ? null : value;
}

function imageUrlsOf(prompt: unknown): string[] {
  return items(prompt)
    .flatMap((message) => items(readStructured(member(message, "content"))))
    .map((part) => textOf(member(member(part, "image_url"), "url")))
    .filter((url) => url !== null);
}

/** Of a list, or of an object whose members are numbered, in the order of the numbers. */
function items(value: unknown): unknown[] {
  if (typeof value !== "object" || value === null) return [];
  const numbered = Object.entries(value).filter(([name]) => /^\d+$/.test(name));
  return numbered.sort(([one], [other]) => Number(one) - Number(other)).map(([, item]) => item);
}
