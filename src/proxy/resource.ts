import { UsageError } from "../errors.ts";
import type { JsonObject, LlmResource } from "../protocol/types.ts";
import type { Upstream } from "./servers/upstreams.ts";

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

/**
 * The proxy as a resource. With both ids, the endpoint is that attempt's own; with neither, runners derive it. The
 * model need not be named when all upstreams have one name.
 */
export function asResource(options: {
  endpoint: string;
  upstreams: readonly Pick<Upstream, "modelName">[];
  rolloutId?: string;
  attemptId?: string;
  model?: string;
  samplingParameters?: JsonObject;
}): LlmResource {
  const { endpoint, upstreams, rolloutId = null, attemptId = null, samplingParameters = {} } = options;
  const resource = proxyResource(endpoint, options.model ?? onlyName(upstreams), samplingParameters);
  if (rolloutId === null && attemptId === null) return resource;
  return { ...resource, resource_type: "llm", endpoint: resolveEndpoint(resource, rolloutId, attemptId) };
}

function onlyName(upstreams: readonly Pick<Upstream, "modelName">[]): string {
  const names = [...new Set(upstreams.map(({ modelName }) => modelName))];
  if (names.length === 1 && names[0] !== undefined) return names[0];
  throw new UsageError(
    names.length === 0 ? "model: the model list is empty" : `model: the list has ${names.join(", ")}`,
    "Name the model that the resource is for.",
  );
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
