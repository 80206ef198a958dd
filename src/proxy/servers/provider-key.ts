import type { Upstream } from "./upstreams.ts";

/** Shorter ones are placeholders, and words that texts may have for reasons of their own. */
const minKeyLength = 8;

/** Some servers repeat a refused key in their error. It is not the agent's, and nobody may find it in a record. */
export function withoutKey(text: string, { apiKey = "" }: Pick<Upstream, "apiKey">): string {
  return apiKey.length < minKeyLength ? text : text.replaceAll(apiKey, "[key]");
}
