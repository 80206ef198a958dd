import { member } from "./opaque.ts";

/** Null for anything but a list of token ids; fractions, booleans and negatives are none. */
export function tokenIds(value: unknown): number[] | null {
  return Array.isArray(value) && value.every((id) => Number.isSafeInteger(id) && id >= 0) ? value : null;
}

/** One list per choice; a flat list is the list of the only choice. */
export function responseLists(value: unknown): number[][] | null {
  if (!Array.isArray(value) || value.length === 0) return null;
  if (Array.isArray(value[0])) return value.map((list) => tokenIds(list) ?? []);
  const flat = tokenIds(value);
  return flat === null ? null : [flat];
}

/** Of a choice in an answer, where vLLM or LiteLLM puts them. */
export function choiceTokens(choice: unknown): number[] {
  return (
    tokenIds(member(choice, "token_ids")) ??
    tokenIds(member(member(choice, "provider_specific_fields"), "token_ids")) ??
    []
  );
}
