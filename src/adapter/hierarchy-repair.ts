import { depthFirst, type SpanNode } from "./span-tree.ts";

/**
 * Spans whose writers knew no parents lie flat. At the first level with more than one child, each child moves under
 * the shortest span that was open all the time it ran, but never under one of its own or into the finding of a reward.
 */
export function repairHierarchy(root: SpanNode): void {
  let level = root;
  while (level.children.length === 1) level = level.children[0] as SpanNode;
  for (const child of level.children.slice()) {
    const parent = enclosing(level, child);
    if (parent === null) continue;
    level.children.splice(level.children.indexOf(child), 1);
    parent.children.push(child);
  }
}

function enclosing(level: SpanNode, child: SpanNode): SpanNode | null {
  let best: SpanNode | null = null;
  let least = Infinity;
  for (const node of depthFirst(level, (other) => other !== child && !other.isReward)) {
    if (node === level) continue;
    if (node.start > child.start || node.end < child.end) continue;
    const slack = node.end - child.end + (child.start - node.start);
    if (slack > 0 && slack < least) [best, least] = [node, slack];
  }
  return best;
}
