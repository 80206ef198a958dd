import { attributeKeys } from "../../protocol/semconv.ts";
import type { StoreApi } from "../../protocol/store-api.ts";
import type { Span } from "../../protocol/types.ts";
import { unnumbered } from "./arrivals.ts";
import { identityHeaders, identityHeadersKey } from "./litellm-attributes.ts";

export interface CompletedCalls {
  /** In the order in which they were given. */
  calls: Span[][];
  /** How many of them turned out to be late. */
  stale: number;
}

/**
 * Completes calls that came while the store did not answer, before they are written: numbers, in the order in which
 * the calls began, and a mark on those that began after their attempt had ended. That compares the proxy's clock
 * with the store's; it is only for these calls.
 */
export async function completeCalls(
  store: Pick<StoreApi, "nextSequenceIds">,
  calls: Span[][],
): Promise<CompletedCalls> {
  const open = calls.filter(isOpen).toSorted((one, other) => startOf(one) - startOf(other));
  if (open.length === 0) return { calls, stale: 0 };
  const requests = open.map(([span]) => ({
    rollout_id: span?.rollout_id ?? "",
    attempt_id: span?.attempt_id ?? "",
  }));
  const numbers = await store.nextSequenceIds(requests);
  const completed = new Map<Span[], Span[]>();
  let stale = 0;
  for (const [index, spans] of open.entries()) {
    const { sequence_id, ended_at } = numbers[index] ?? { sequence_id: unnumbered, ended_at: null };
    const late = ended_at !== null && startOf(spans) >= ended_at && !isMarked(spans);
    if (late) stale += 1;
    completed.set(spans, completeCall(spans, sequence_id, late));
  }
  return { calls: calls.map((spans) => completed.get(spans) ?? spans), stale };
}

/** It was late already as it came. */
function isMarked(spans: Span[]): boolean {
  return spans.some(({ attributes }) => attributes[attributeKeys.stale] === true);
}

function isOpen(spans: Span[]): boolean {
  return spans[0]?.sequence_id === unnumbered;
}

function startOf(spans: Span[]): number {
  return spans[0]?.start_time ?? 0;
}

function completeCall(spans: Span[], sequenceId: number, stale: boolean): Span[] {
  return spans.map((span) => {
    const { rollout_id: rolloutId, attempt_id: attemptId, attributes, resource } = span;
    const headers = identityHeaders({ rolloutId, attemptId, sequenceId });
    return {
      ...span,
      sequence_id: sequenceId,
      attributes: {
        ...attributes,
        ...(attributes[identityHeadersKey] === undefined ? {} : { [identityHeadersKey]: headers }),
        // The root of a call has no marks.
        ...(stale && span.parent_id !== null ? { [attributeKeys.stale]: true } : {}),
      },
      resource: {
        ...resource,
        attributes: { ...resource.attributes, [attributeKeys.sequenceId]: sequenceId },
      },
    };
  });
}
