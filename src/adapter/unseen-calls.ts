import type { Span } from "../protocol/types.ts";
import { type CallGroup, callGroups } from "./call-groups.ts";
import type { DroppedCall } from "./triplet.ts";

/** Calls that only somebody else recorded: an adapter makes nothing of them, and says so. */
export function unseenCalls(
  ordered: readonly Span[],
  { isSeen, reason }: { isSeen: (group: CallGroup) => boolean; reason: string },
): DroppedCall[] {
  return callGroups(ordered)
    .filter((group) => !isSeen(group))
    .map(({ sequenceId, responseId }) => ({ sequence_id: sequenceId, response_id: responseId, reason }));
}
