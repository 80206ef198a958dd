import { depthFirst, type SpanNode } from "./span-tree.ts";

export const rewardMatches = ["first_occurrence", "first_sibling"] as const;
export type RewardMatch = (typeof rewardMatches)[number];

/**
 * Gives each reward to the call started last before it that was over when the reward began and has none yet: among
 * all calls, or only among those beside it. Returns the nodes of rewards that no call takes.
 */
export function matchRewards(
  root: SpanNode,
  isCall: (node: SpanNode) => boolean,
  match: RewardMatch,
  assign: (call: SpanNode, reward: number) => void,
): SpanNode[] {
  const nodes = depthFirst(root);
  const lists =
    match === "first_occurrence"
      ? [nodes.toSorted(byStart)]
      : [[root], ...nodes.map(({ children }) => children)];
  const waiting: SpanNode[] = [];
  const unassigned: SpanNode[] = [];
  for (const list of lists) {
    waiting.length = 0;
    for (const node of list) {
      if (isCall(node)) waiting.push(node);
      if (node.reward === null) continue;
      const index = waiting.findLastIndex((call) => call !== node && call.end <= node.start);
      const [call] = index === -1 ? [] : waiting.splice(index, 1);
      if (call === undefined) unassigned.push(node);
      else assign(call, node.reward);
    }
  }
  return unassigned;
}

function byStart(one: SpanNode, other: SpanNode): number {
  return one.start === other.start ? 0 : one.start - other.start;
}
