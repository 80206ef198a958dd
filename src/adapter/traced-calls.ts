import type { Span } from "../protocol/types.ts";
import { agentNameOf } from "./agent-name.ts";
import { unusedReason } from "./call-marks.ts";
import type { SpanNode } from "./span-tree.ts";
import { type TracedContent, tracedContent } from "./traced-content.ts";
import type { DroppedCall } from "./triplet.ts";

export interface CallRules {
  isCall: RegExp;
  /** Null: calls of every agent. */
  agent: RegExp | null;
  excludeInReward: boolean;
}

export interface FoundCall {
  span: Span;
  agentName: string;
  content: TracedContent;
}

interface Surroundings {
  agentName: string | null;
  inReward: boolean;
  inCall: boolean;
}

/** The calls of a tree: each once, though several tracers may have seen it. */
export class TracedCalls {
  readonly found = new Map<SpanNode, FoundCall>();
  readonly dropped: DroppedCall[] = [];
  readonly #rules: CallRules;
  readonly #seen = new Set<string>();

  constructor(root: SpanNode, rules: CallRules) {
    this.#rules = rules;
    const agentName = rules.agent === null ? "*" : null;
    const waiting: [SpanNode, Surroundings][] = [[root, { agentName, inReward: false, inCall: false }]];
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      const [node, surroundings] = next;
      if (node.span !== null && rules.isCall.test(node.span.name)) this.#look(node, node.span, surroundings);
      const below = this.#below(node, surroundings);
      for (const child of node.children.toReversed()) waiting.push([child, below]);
    }
  }

  #look(node: SpanNode, span: Span, surroundings: Surroundings): void {
    const content = tracedContent(span.attributes);
    const reason = this.#whyNot(span, content, surroundings);
    if (reason !== null) {
      this.dropped.push({ sequence_id: span.sequence_id, response_id: content.responseId, reason });
      return;
    }
    for (const key of identitiesOf(span, content)) this.#seen.add(key);
    this.found.set(node, { span, agentName: surroundings.agentName as string, content });
  }

  #whyNot(span: Span, content: TracedContent, { agentName, inReward, inCall }: Surroundings): string | null {
    if (agentName === null) return "other_agent";
    if (inReward) return "in_reward";
    if (content.responseId === null && inCall) return "nested_without_id";
    if (identitiesOf(span, content).some((key) => this.#seen.has(key))) return "duplicate";
    return unusedReason(span);
  }

  #below(node: SpanNode, { agentName, inReward, inCall }: Surroundings): Surroundings {
    const { agent, excludeInReward } = this.#rules;
    const name = node.span === null ? null : agentNameOf(node.span);
    const named = name === null ? agentName : agent === null || agent.test(name) ? name : null;
    return {
      agentName: named,
      inReward: inReward || (excludeInReward && node.isReward),
      inCall: inCall || this.found.has(node),
    };
  }
}

/** Without a response id, a call is told by its span, or by its place and ids. */
function identitiesOf(span: Span, { responseId, promptIds, responseIds }: TracedContent): string[] {
  if (responseId !== null) return [`response ${responseId}`];
  const bySpan = `span ${span.span_id}`;
  if (promptIds.length === 0 || responseIds.length === 0) return [bySpan];
  return [bySpan, `ids ${span.sequence_id} ${promptIds.join()} ${responseIds.join()}`];
}
