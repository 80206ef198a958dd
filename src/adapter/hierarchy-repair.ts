import { EnclosingSpans } from "./enclosing-spans.ts";
import { depthFirst, type SpanNode } from "./span-tree.ts";

/**
 * Spans whose writers knew no parents lie flat. At the first level with more than one child, each child moves under
 * the shortest span that was open all the time it ran, but never under one of its own or into the finding of a reward.
 */
export function repairHierarchy(root: SpanNode): void {
  let level = root;
  while (level.children.length === 1) level = level.children[0] as SpanNode;
  const places = new Places(level);
  for (const child of level.children.slice()) {
    const parent = places.shortestAround(child);
    if (parent !== null) places.move(child, parent);
  }
}

class Places {
  readonly #level: SpanNode;
  readonly #spans: EnclosingSpans;
  readonly #parents = new Map<SpanNode, SpanNode>();

  constructor(level: SpanNode) {
    this.#level = level;
    const nodes = depthFirst(level, (node) => !node.isReward);
    this.#spans = new EnclosingSpans(nodes.filter((node) => node !== level));
    for (const node of nodes) for (const child of node.children) this.#parents.set(child, node);
  }

  shortestAround(child: SpanNode): SpanNode | null {
    let best: SpanNode | null = null;
    let least = Infinity;
    for (const node of this.#spans.around(child)) {
      const slack = node.end - child.end + (child.start - node.start);
      if (!(slack > 0) || slack > least || this.#isWithin(node, child)) continue;
      if (slack < least || this.#isBefore(node, best as SpanNode)) [best, least] = [node, slack];
    }
    return best;
  }

  move(child: SpanNode, parent: SpanNode): void {
    this.#level.children.splice(this.#level.children.indexOf(child), 1);
    parent.children.push(child);
    this.#parents.set(child, parent);
  }

  #isWithin(node: SpanNode, top: SpanNode): boolean {
    let current: SpanNode | undefined = node;
    while (current !== undefined && current !== top) current = this.#parents.get(current);
    return current === top;
  }

  /** In depth-first order. */
  #isBefore(one: SpanNode, other: SpanNode): boolean {
    for (const node of depthFirst(this.#level)) {
      if (node === one) return true;
      if (node === other) return false;
    }
    return false;
  }
}
