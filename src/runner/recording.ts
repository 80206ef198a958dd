import { directFetch } from "../client/loopback-fetch.ts";
import { messageOf } from "../errors.ts";
import type { LlmResource } from "../protocol/types.ts";
import { resolveEndpoint } from "../proxy/resource.ts";

const notOffered = new Set([404, 405]);

/**
 * Tells the recording proxy that an attempt ends: it stores what it holds of it, and whatever comes later is late.
 * Returns what went wrong, or null; a proxy that does not offer it has nothing to flush.
 */
export async function flushRecording(
  resource: LlmResource,
  rolloutId: string,
  attemptId: string,
  limitMs: number,
): Promise<string | null> {
  if (resource.resource_type === "llm") return null;
  const root = resolveEndpoint(resource, rolloutId, attemptId).replace(/\/v1$/, "");
  try {
    const response = await directFetch(`${root}/flush?ends=true`, {
      method: "POST",
      signal: AbortSignal.timeout(limitMs),
    });
    await response.body?.cancel();
    return response.ok || notOffered.has(response.status)
      ? null
      : `the proxy answered ${response.status} to a flush`;
  } catch (error) {
    return `the proxy did not flush its recording: ${messageOf(error)}`;
  }
}
