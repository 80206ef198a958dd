import { spanNames } from "../protocol/semconv.ts";
import type { Span } from "../protocol/types.ts";

/** What the OpenTelemetry conventions call asking a model; embeddings, tools and whole agents are other operations. */
const modelOperations = ["chat", "text_completion", "generate_content"];
const namedByOperation = new RegExp(`^(?:${modelOperations.join("|")}) `);

/** Written by a proxy between agent and model. LiteLLM may write what is normalised on the root. */
export function isProxiedCall({ name, attributes }: Pick<Span, "name" | "attributes">): boolean {
  if (name === spanNames.proxyRequest) return attributes["gen_ai.request.model"] !== undefined;
  return name === spanNames.rawRequest || name === spanNames.litellmRequest;
}

/** Written on the agent's side, by any of the tracers that have a name for it. */
export function isTracedCall(span: Pick<Span, "name" | "attributes">): boolean {
  const { name, attributes } = span;
  if (isProxiedCall(span) || name === spanNames.proxyRequest) return false;
  if (name.includes(spanNames.chatCompletion)) return true;
  const operation = attributes["gen_ai.operation.name"];
  if (typeof operation === "string") return modelOperations.includes(operation);
  const kind = attributes["openinference.span.kind"] ?? attributes["agentops.span.kind"];
  if (typeof kind === "string") return kind.toLowerCase() === "llm";
  const type = attributes["llm.request.type"];
  if (typeof type === "string") return type === "chat" || type === "completion";
  return namedByOperation.test(name) && attributes["gen_ai.request.model"] !== undefined;
}

export function isModelCall(span: Pick<Span, "name" | "attributes">): boolean {
  return isProxiedCall(span) || isTracedCall(span);
}
