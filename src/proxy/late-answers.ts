import { attributeKeys } from "../protocol/semconv.ts";
import type { StoreApi } from "../protocol/store-api.ts";
import type { Span } from "../protocol/types.ts";
import { unnumbered } from "./arrivals.ts";
import type { AttemptEnds } from "./attempt-ends.ts";
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
export class LateAnswers {
  readonly #store: Pick<StoreApi, "nextSequenceId">;
  readonly #ends: AttemptEnds;

  constructor(options: { store: Pick<StoreApi, "nextSequenceId">; ends: AttemptEnds }) {
    this.#store = options.store;
    this.#ends = options.ends;
  }

  async complete(calls: Span[][]): Promise<CompletedCalls> {
    const open = calls.filter(isOpen);
    if (open.length === 0) return { calls, stale: 0 };
    let stale = 0;
    const byRollout = Map.groupBy(open, (spans) => spans[0]?.rollout_id ?? "");
    const completed = new Map<Span[], Span[]>();
    await Promise.all(
      [...byRollout.values()].map(async (siblings) => {
        const ordered = siblings.toSorted((one, other) => startOf(one) - startOf(other));
        const numbers = await this.#numbers(ordered);
        for (const [index, spans] of ordered.entries()) {
          const late = await this.#isLate(spans);
          if (late) stale += 1;
          completed.set(spans, completeCall(spans, numbers[index] ?? unnumbered, late));
        }
      }),
    );
    return { calls: calls.map((spans) => completed.get(spans) ?? spans), stale };
  }

  async #numbers(calls: Span[][]): Promise<number[]> {
    const numbers = await Promise.all(
      calls.map(([span]) => this.#store.nextSequenceId(span?.rollout_id ?? "", span?.attempt_id ?? "")),
    );
    return numbers.toSorted((one, other) => one - other);
  }

  /** False, too, for one that was marked as it came. */
  async #isLate(spans: Span[]): Promise<boolean> {
    const [first] = spans;
    if (first === undefined || spans.some(({ attributes }) => attributes[attributeKeys.stale] === true)) {
      return false;
    }
    const endedAt = await this.#ends.endOf({ rolloutId: first.rollout_id, attemptId: first.attempt_id });
    return endedAt !== null && startOf(spans) >= endedAt;
  }
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
