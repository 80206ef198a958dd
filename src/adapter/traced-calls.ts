import type { Span } from "../protocol/types.ts";
import { agentNameOf } from "./agent-name.ts";
import { inexactReason, unusedReason } from "./call-marks.ts";
import { isTracedCall } from "./model-call-span.ts";
import type { SpanNode } from "./span-tree.ts";
import { type TracedContent, tracedContent } from "./traced-content.ts";
import type { DroppedCall } from "./triplet.ts";

export interface CallRules {
  isCall: (span: Span) => boolean;
  /** Null: calls of every agent. */
  agent: RegExp | null;
  excludeInReward: boolean;
}

export interface FoundCall {
  /** Its place. */
  span: Span;
  /** The one that tells most of it. */
  told: Span;
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
  /** Every span that was taken for one of a call. */
  readonly looked = new Set<Span>();
  readonly #seen = new Map<string, SpanNode>();

  constructor(root: SpanNode, rules: CallRules) {
    this.#rules = rules;
    const agentName = rules.agent === null ? "*" : null;
    const waiting: [SpanNode, Surroundings][] = [[root, { agentName, inReward: false, inCall: false }]];
    const unmatched: Span[] = [];
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      const [node, surroundings] = next;
      if (node.span !== null && rules.isCall(node.span)) this.#look(node, node.span, surroundings);
      else if (node.span !== null && isTracedCall(node.span)) unmatched.push(node.span);
      const below = this.#below(node, surroundings);
      for (const child of node.children.toReversed()) waiting.push([child, below]);
    }
    for (const span of unmatched) this.#passOver(span);
  }

  #look(node: SpanNode, span: Span, surroundings: Surroundings): void {
    this.looked.add(span);
    const content = tracedContent(span);
    const reason = this.#whyNot(span, content, surroundings);
    if (reason === "duplicate") this.#complete(span, content);
    if (reason !== null) {
      this.#drop(span, content, reason);
      return;
    }
    for (const key of identitiesOf(span, content)) this.#seen.set(key, node);
    this.found.set(node, { span, told: span, agentName: surroundings.agentName as string, content });
  }

  /** Of two tracers that saw one call, only one may know its ids. */
  #complete(span: Span, content: TracedContent): void {
    const node = identitiesOf(span, content)
      .map((key) => this.#seen.get(key))
      .find((seen) => seen !== undefined);
    const call = node === undefined ? undefined : this.found.get(node);
    if (node === undefined || call === undefined || unusedReason(span) !== null) return;
    const isBetter =
      inexactReason(call.told.attributes, call.content) !== null &&
      inexactReason(span.attributes, content) === null;
    if (isBetter) this.found.set(node, { ...call, told: span, content });
  }

  /** A call by its attributes, whose name was not asked for. */
  #passOver(span: Span): void {
    const content = tracedContent(span);
    this.looked.add(span);
    if (identitiesOf(span, content).some((key) => this.#seen.has(key))) return;
    this.#drop(span, content, "name_not_matched");
  }

  #drop({ sequence_id }: Span, { responseId }: TracedContent, reason: string): void {
    this.dropped.push({ sequence_id, response_id: responseId, reason });
  }

  #whyNot(span: Span, content: TracedContent, { agentName, inReward, inCall }: Surroundings): string | null {
    if (agentName === null) return "other_agent";
    if (inReward) return "in_reward";
    if (content.responseId === null && inCall) return unusedReason(span) ?? "nested_without_id";
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
