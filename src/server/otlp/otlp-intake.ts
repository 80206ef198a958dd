import type { StoreApi } from "../../protocol/store-api.ts";
import { attributeKeys } from "../../protocol/semconv.ts";
import { numberText } from "../../protocol/json.ts";
import type { Span } from "../../protocol/types.ts";
import type { ReceivedSpan } from "./otlp-span.ts";

export interface OtlpOutcome {
  /** Spans that are in the store now, or were before. */
  taken: number;
  /** Spans that name no rollout and attempt. */
  unattributed: number;
  /** Why the store did not take spans; the others are stored. */
  refusals: string[];
}

/** A request may hold more spans than the store lets write at a time. */
const numberedAtOnce = 1_000;

/** Stores received spans with the rollout, attempt and sequence number that they or their resource name. */
export async function storeReceivedSpans(
  store: Pick<StoreApi, "addSpans" | "nextSequenceId">,
  received: readonly ReceivedSpan[],
): Promise<OtlpOutcome> {
  const attributed = received.map(attribute).filter((span) => span !== null);
  const spans: Span[] = [];
  for (let start = 0; start < attributed.length; start += numberedAtOnce) {
    const group = attributed.slice(start, start + numberedAtOnce);
    for (const span of await numbered(store, group)) spans.push(span);
  }
  const { stored, duplicates, rejected } = await store.addSpans(spans);
  return {
    taken: stored + duplicates,
    unattributed: received.length - attributed.length,
    refusals: rejected.map(({ detail }) => detail),
  };
}

/** Asked for in the order of the spans: numbers are handed out in the order of the questions. */
async function numbered(store: Pick<StoreApi, "nextSequenceId">, spans: AttributedSpan[]): Promise<Span[]> {
  return await Promise.all(
    spans.map(async ({ sequence_id, ...span }) => {
      const number = sequence_id ?? (await store.nextSequenceId(span.rollout_id, span.attempt_id));
      return { ...span, sequence_id: number };
    }),
  );
}

type AttributedSpan = ReceivedSpan & {
  rollout_id: string;
  attempt_id: string;
  /** Null when the store has to give one. */
  sequence_id: number | null;
};

/** Null for a span that belongs to no attempt: tracers write empty ids outside of one. */
function attribute(span: ReceivedSpan): AttributedSpan | null {
  const own = (key: string): unknown => span.attributes[key] ?? span.resource.attributes[key];
  const rolloutId = textOf(own(attributeKeys.rolloutId));
  const attemptId = textOf(own(attributeKeys.attemptId));
  if (rolloutId === "" || attemptId === "") return null;
  const sequenceId = sequenceIdOf(own(attributeKeys.sequenceId));
  return { ...span, rollout_id: rolloutId, attempt_id: attemptId, sequence_id: sequenceId };
}

function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  return value === undefined ? "" : (numberText(value) ?? String(value));
}

/** An integer, or a text that Python would read as one; nothing negative. */
function sequenceIdOf(value: unknown): number | null {
  const text = typeof value === "string" ? value : (numberText(value) ?? "");
  if (!/^\s*\+?\d+(?:_\d+)*\s*$/.test(text)) return null;
  const number = Number(text.replaceAll("_", ""));
  return Number.isSafeInteger(number) ? number : null;
}
