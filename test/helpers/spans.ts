import type { Attributes, Span } from "../../src/protocol/types.ts";

let number = 0;

/** A complete span; its ids are new each time. */
export function makeSpan(
  rolloutId: string,
  attemptId: string,
  name: string,
  attributes: Attributes,
  overrides: Partial<Span> = {},
): Span {
  number += 1;
  const trace_id = number.toString(16).padStart(32, "0");
  const span_id = number.toString(16).padStart(16, "0");
  return {
    rollout_id: rolloutId,
    attempt_id: attemptId,
    sequence_id: number,
    trace_id,
    span_id,
    parent_id: null,
    name,
    status: { status_code: "OK", description: null },
    attributes,
    events: [],
    links: [],
    start_time: 1_700_000_000 + number,
    end_time: 1_700_000_001 + number,
    context: { trace_id, span_id, is_remote: false, trace_state: {} },
    parent: null,
    resource: { attributes: {}, schema_url: "" },
    ...overrides,
  };
}

export function rewardSpan(rolloutId: string, attemptId: string, value: number): Span {
  return makeSpan(rolloutId, attemptId, "agentlightning.annotation", {
    "agentlightning.reward.0.name": "primary",
    "agentlightning.reward.0.value": value,
  });
}
