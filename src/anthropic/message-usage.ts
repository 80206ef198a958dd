import { isJsonObject } from "../protocol/json.ts";
import type { JsonObject } from "../protocol/types.ts";

/** Tokens as the Messages API counts them: what came from a cache, or went into it, is none of the input. */
export function messageUsage(usage: unknown): JsonObject {
  if (!isJsonObject(usage)) return { input_tokens: 0, output_tokens: 0 };
  const details = isJsonObject(usage.prompt_tokens_details) ? usage.prompt_tokens_details : {};
  const { cached_tokens: read, created_cache_tokens: created } = details;
  const input = Number(usage.prompt_tokens ?? 0) - Number(read ?? 0) - Number(created ?? 0);
  return {
    input_tokens: Math.max(0, input),
    output_tokens: usage.completion_tokens ?? 0,
    ...(typeof created === "number" ? { cache_creation_input_tokens: created } : {}),
    ...(typeof read === "number" ? { cache_read_input_tokens: read } : {}),
  };
}
