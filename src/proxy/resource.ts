import { UsageError } from "../errors.ts";
import type { JsonObject, LlmResource } from "../protocol/types.ts";

/** The proxy as runners find it in the store. */
export function proxyResource(
  endpoint: string,
  modelName: string,
  samplingParameters: JsonObject = {},
): LlmResource {
  return {
    resource_type: "proxy_llm",
    endpoint,
    model: modelName,
    api_key: null,
    sampling_parameters: samplingParameters,
  };
}

/** The base URL an agent of this attempt uses. With neither id it is the endpoint as published. */
export function resolveEndpoint(
  resource: Pick<LlmResource, "resource_type" | "endpoint">,
  rolloutId: string | null,
  attemptId: string | null,
): string {
  const { endpoint } = resource;
  if (resource.resource_type === "llm" || (rolloutId === null && attemptId === null)) return endpoint;
  if (!rolloutId || !attemptId) {
    throw new UsageError(
      `endpoint: rollout id ${JSON.stringify(rolloutId)} and attempt id ${JSON.stringify(attemptId)}`,
      "Give both ids, or neither.",
    );
  }
  const withoutSlash = endpoint.replace(/\/$/, "");
  const versioned = withoutSlash.endsWith("/v1");
  const base = versioned ? withoutSlash.slice(0, -"/v1".length) : withoutSlash;
  const prefix = `/rollout/${encodeURIComponent(rolloutId)}/attempt/${encodeURIComponent(attemptId)}`;
  return base + prefix + (versioned ? "/v1" : "");
}
