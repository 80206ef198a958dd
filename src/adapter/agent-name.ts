import type { Span } from "../protocol/types.ts";
import { textOf } from "./opaque.ts";

/** The agent a span stands for, as the tracers of several agent frameworks write it; null for other spans. */
export function agentNameOf({ name, attributes }: Span): string | null {
  const isAgent = attributes["agentops.span.kind"] === "agent";
  return (
    textOf(attributes["agent.name"]) ??
    (isAgent ? textOf(attributes["operation.name"]) : null) ??
    textOf(attributes["recipient_agent_type"]) ??
    textOf(attributes["langchain.chain.type"]) ??
    textOf(attributes["executor.id"]) ??
    (attributes["type"] === "agent" ? textOf(attributes["agentlightning.operation.input.name"]) : null) ??
    (name.startsWith("langchain.Chain.") ? textOf(attributes["lc_name"]) : null)
  );
}
