import { type CallGroup, droppedGroup } from "./call-groups.ts";
import type { DroppedCall } from "./triplet.ts";

/** The agent did not use the address, or the client, that it was given. */
export type UnseenReason = "not_through_proxy" | "not_traced";

export function isUnseen({ reason }: DroppedCall): boolean {
  return (
    reason === ("not_through_proxy" satisfies UnseenReason) ||
    reason === ("not_traced" satisfies UnseenReason)
  );
}

/** Calls that only somebody else recorded: an adapter makes nothing of them, and says so. */
export function unseenCalls(
  groups: readonly CallGroup[],
  { isSeen, reason }: { isSeen: (group: CallGroup) => boolean; reason: UnseenReason },
): DroppedCall[] {
  return groups.filter((group) => !isSeen(group)).map((group) => droppedGroup(group, reason));
}
