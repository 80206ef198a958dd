import type { Logger } from "../log.ts";
import type { Span } from "../protocol/types.ts";
import { isRewardSpan, rewardOf } from "./rewards.ts";
import { byOrder } from "./span-order.ts";

export interface SpanNode {
  /** Null where a parent was named that nobody sent, and at the top of several roots. */
  span: Span | null;
  sequenceId: number;
  /** Infinity when the span has no times. */
  start: number;
  end: number;
  /** The reward it carries. */
  reward: number | null;
  /** What lies below belongs to finding a reward, for example the calls of a judge. */
  isReward: boolean;
  children: SpanNode[];
}

/**
 * One tree of all spans, whatever their order: parents that are missing are made up, several roots get one above them,
 * and a circle is cut at one of its spans. Null without spans.
 */
export function buildTree(spans: readonly Span[], log: Logger): SpanNode | null {
  const nodes = spans.toSorted(byOrder).map((span) => spanNode(span, log));
  const roots = connect(nodes).sort(byPlace);
  if (roots.length <= 1) return roots[0] ?? null;
  return { ...madeUpNode(roots), end: roots.at(-1)?.end ?? Infinity };
}

function spanNode(span: Span, log: Logger): SpanNode {
  const reward = rewardOf(span, log);
  return {
    span,
    sequenceId: span.sequence_id,
    start: span.start_time ?? span.end_time ?? Infinity,
    end: span.end_time ?? span.start_time ?? Infinity,
    reward,
    isReward: reward !== null || isRewardSpan(span),
    children: [],
  };
}

/** A node over others: as long as they are, in the place of the first. */
function madeUpNode(children: SpanNode[]): SpanNode {
  return {
    span: null,
    sequenceId: children[0]?.sequenceId ?? 0,
    start: children.reduce((least, { start }) => Math.min(least, start), Infinity),
    end: children.reduce((most, { end }) => Math.max(most, end), -Infinity),
    reward: null,
    isReward: false,
    children,
  };
}

/** Links children to parents and returns the nodes without one. */
function connect(nodes: SpanNode[]): SpanNode[] {
  const byId = new Map<string, SpanNode>();
  for (const node of nodes) if (!byId.has(idOf(node))) byId.set(idOf(node), node);
  const parents = new Map<SpanNode, SpanNode>();
  const roots: SpanNode[] = [];
  const orphans = new Map<string, SpanNode[]>();
  for (const node of nodes) {
    const parentId = node.span?.parent_id;
    if (parentId === null || parentId === undefined || parentId === "") roots.push(node);
    else if (byId.has(parentId)) parents.set(node, byId.get(parentId) as SpanNode);
    else orphans.getOrInsertComputed(parentId, () => []).push(node);
  }
  const others = [...[...orphans.values()].map(madeUpNode), ...cutCircles(nodes, parents)];
  for (const [node, parent] of parents) parent.children.push(node);
  return roots.concat(others);
}

/** Takes one node of each circle from its parent and returns these nodes. */
function cutCircles(nodes: SpanNode[], parents: Map<SpanNode, SpanNode>): SpanNode[] {
  const checked = new Set<SpanNode>();
  const cut: SpanNode[] = [];
  for (const node of nodes) {
    const path = new Set<SpanNode>();
    let current: SpanNode | undefined = node;
    while (current !== undefined && !checked.has(current) && !path.has(current)) {
      path.add(current);
      current = parents.get(current);
    }
    if (current !== undefined && path.has(current)) {
      parents.delete(current);
      cut.push(current);
    }
    for (const seen of path) checked.add(seen);
  }
  return cut;
}

function idOf(node: SpanNode): string {
  return node.span?.span_id ?? "";
}

function byPlace(one: SpanNode, other: SpanNode): number {
  const difference = one.sequenceId - other.sequenceId;
  if (difference !== 0) return difference;
  return one.start === other.start ? 0 : one.start - other.start;
}

/** The node and all below it, parents before children, children in order; without what `enter` refuses. */
export function depthFirst(root: SpanNode, enter: (node: SpanNode) => boolean = () => true): SpanNode[] {
  const found: SpanNode[] = [];
  const waiting = [root];
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    if (node !== root && !enter(node)) continue;
    found.push(node);
    for (const child of node.children.toReversed()) waiting.push(child);
  }
  return found;
}
