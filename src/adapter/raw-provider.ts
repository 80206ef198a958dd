import type { Attributes } from "../protocol/types.ts";

/** What only a provider's members are called, those that say most first. */
const tellingKeys = [
  "prompt_token_ids",
  "response_token_ids",
  "choices",
  "output",
  "messages",
  "prompt",
  "input",
  "id",
];

/** The name between `llm.` and the members of a verbatim span. */
export function rawProvider(attributes: Attributes): string | undefined {
  const keys = Object.keys(attributes).filter((key) => key.startsWith("llm."));
  for (const telling of tellingKeys) {
    const key = keys.find((name) => name.endsWith(`.${telling}`) && name.length > telling.length + 5);
    if (key !== undefined) return key.slice("llm.".length, -telling.length - 1);
  }
  return undefined;
}
