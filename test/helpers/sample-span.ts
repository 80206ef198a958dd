import type { Span } from "../../src/protocol/types.ts";

let count = 0;

/** A complete span with a span id of its own. */
export function sampleSpan(members: Partial<Span> & Pick<Span, "rollout_id" | "attempt_id">): Span {
  count += 1;
  return {
    sequence_id: 1,
    trace_id: "e95db3617b85571a208bd3718fbc9227",
    span_id: count.toString(16).padStart(16, "0"),
    parent_id: null,
    name: "openai.chat.completion",
    status: { status_code: "OK", description: null },
    attributes: {},
    events: [],
    links: [],
    start_time: 1766538002.5,
    end_time: 1766538003.25,
    context: null,
    parent: null,
    resource: { attributes: {}, schema_url: "" },
    ...members,
  };
}
