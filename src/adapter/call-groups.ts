import { attributeKeys, spanNames } from "../protocol/semconv.ts";
import type { Span } from "../protocol/types.ts";
import { isProxiedCall, isTracedCall } from "./model-call-span.ts";
import { textOf } from "./opaque.ts";
import type { DroppedCall } from "./triplet.ts";
import { UnseenTwins } from "./unseen-twins.ts";

/** All that was written about one call of a model, by whomever. */
export interface CallGroup {
  /** Of the first span. */
  sequenceId: number;
  responseId: string | null;
  /** The verbatim span first, then the normalised ones, then those of tracers. */
  spans: Span[];
}

/** `ordered` are spans of one attempt. The groups come in order. */
export function callGroups(ordered: readonly Span[]): CallGroup[] {
  const groups = proxiedGroups(ordered.filter(isProxiedCall));
  const byResponse = new Map<string, CallGroup>();
  for (const group of groups.toReversed()) {
    if (group.responseId !== null) byResponse.set(group.responseId, group);
  }
  addTraced(groups, byResponse, ordered);
  for (const { spans } of groups) spans.sort((one, other) => rankOf(one) - rankOf(other));
  const position = new Map(ordered.map((span, index) => [span, index]));
  const placeOf = ({ spans }: CallGroup) => Math.min(...spans.map((span) => position.get(span) ?? Infinity));
  return groups.toSorted((one, other) => placeOf(one) - placeOf(other));
}

export function isProxiedGroup({ spans }: CallGroup): boolean {
  return spans.some(isProxiedCall);
}

export function droppedGroup({ sequenceId, responseId }: CallGroup, reason: string): DroppedCall {
  return { sequence_id: sequenceId, response_id: responseId, reason };
}

export function responseIdOf({ attributes }: Pick<Span, "attributes">): string | null {
  const named =
    textOf(attributes[attributeKeys.responseId]) ?? textOf(attributes["agentlightning.operation.output.id"]);
  if (named !== null) return named;
  const rawId = Object.keys(attributes).find((key) => /^llm\.[^.]+\.id$/.test(key));
  return rawId === undefined ? null : textOf(attributes[rawId]);
}

/** Spans of one call share their place; a failed try beside an answer has no id, and goes with it. */
function proxiedGroups(spans: Span[]): CallGroup[] {
  const groups: CallGroup[] = [];
  for (const [sequenceId, atPlace] of Map.groupBy(spans, ({ sequence_id }) => sequence_id)) {
    const ids = new Set(atPlace.map(responseIdOf));
    ids.delete(null);
    const [only = null] = ids.size === 1 ? ids : [];
    for (const [responseId, ofCall] of Map.groupBy(atPlace, (span) => responseIdOf(span) ?? only)) {
      groups.push({ sequenceId, responseId, spans: ofCall });
    }
  }
  return groups;
}

function addTraced(groups: CallGroup[], byResponse: Map<string, CallGroup>, ordered: readonly Span[]): void {
  const twins = new UnseenTwins(groups);
  const bySpan = new Map<string, CallGroup>();
  const parents = new Map(ordered.map(({ span_id, parent_id }) => [span_id, parent_id]));
  const nameless: Span[] = [];
  const join = (group: CallGroup, span: Span) => {
    group.spans.push(span);
    twins.markSeen(group);
    bySpan.set(span.span_id, group);
  };
  const start = (span: Span, responseId: string | null) => {
    const group = { sequenceId: span.sequence_id, responseId, spans: [] };
    groups.push(group);
    join(group, span);
    return group;
  };
  for (const span of ordered.filter(isTracedCall)) {
    const responseId = responseIdOf(span);
    if (responseId === null) nameless.push(span);
    else if (byResponse.has(responseId)) join(byResponse.get(responseId) as CallGroup, span);
    else byResponse.set(responseId, start(span, responseId));
  }
  for (const span of nameless) {
    const group = bySpan.get(span.span_id) ?? groupAbove(span, bySpan, parents) ?? twins.within(span);
    if (group === undefined) start(span, null);
    else join(group, span);
  }
}

/** A tracer below another tells of the same call once more. */
function groupAbove(
  span: Span,
  bySpan: Map<string, CallGroup>,
  parents: Map<string, string | null>,
): CallGroup | undefined {
  const seen = new Set([span.span_id]);
  for (let id = span.parent_id; id !== null && id !== undefined && !seen.has(id);) {
    const group = bySpan.get(id);
    if (group !== undefined) return group;
    seen.add(id);
    id = parents.get(id) ?? null;
  }
  return undefined;
}

function rankOf(span: Span): number {
  if (span.name === spanNames.rawRequest) return 0;
  return isProxiedCall(span) ? 1 : 2;
}
