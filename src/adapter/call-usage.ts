import { readStructured } from "../protocol/python-literal.ts";
import type { Attributes, Span } from "../protocol/types.ts";
import { member } from "./opaque.ts";
import { rawProvider } from "./raw-provider.ts";
import { spanNames } from "../protocol/semconv.ts";

/** The server's own counts, under the names of chat completions. Undefined or no number: nobody wrote it. */
export interface CallUsage {
  prompt_tokens: unknown;
  completion_tokens: unknown;
}

/** Of an answer's `usage`; responses and messages count in other words. */
export function usageMembers(usage: unknown): CallUsage {
  return {
    prompt_tokens: member(usage, "prompt_tokens") ?? member(usage, "input_tokens"),
    completion_tokens: member(usage, "completion_tokens") ?? member(usage, "output_tokens"),
  };
}

/** Of the attributes that tracers have for it. */
export function usageAttributes(attributes: Attributes): CallUsage {
  return {
    prompt_tokens:
      attributes["gen_ai.usage.prompt_tokens"] ??
      attributes["gen_ai.usage.input_tokens"] ??
      attributes["llm.token_count.prompt"],
    completion_tokens:
      attributes["gen_ai.usage.completion_tokens"] ??
      attributes["gen_ai.usage.output_tokens"] ??
      attributes["llm.token_count.completion"],
  };
}

/** What any of a call's spans says. */
export function usageOfCall(spans: readonly Span[]): {
  prompt_tokens: number | null;
  completion_tokens: number | null;
} {
  const told = spans.flatMap(({ name, attributes }) => [
    ...(name === spanNames.rawRequest ? [rawUsage(attributes)] : []),
    usageAttributes(attributes),
    usageMembers(readStructured(attributes["agentlightning.operation.output.usage"])),
  ]);
  const first = (key: keyof CallUsage) =>
    told.map((usage) => usage[key]).find((count) => typeof count === "number") ?? null;
  return { prompt_tokens: first("prompt_tokens"), completion_tokens: first("completion_tokens") };
}

export function rawUsage(attributes: Attributes): CallUsage {
  return usageMembers(readStructured(attributes[`llm.${rawProvider(attributes)}.usage`]));
}
