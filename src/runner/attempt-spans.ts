import { rewardAttributes } from "../protocol/reward-attributes.ts";
import { attributeKeys, spanNames } from "../protocol/semconv.ts";
import type { Attributes, Span } from "../protocol/types.ts";
import type { ErrorReport } from "./worker-messages.ts";

const maxAttributeLength = 64 * 1024;

export interface SpanFrame {
  rolloutId: string;
  attemptId: string;
  traceId: string;
}

export interface ToolCallRecord {
  name: string;
  arguments: unknown;
  result: string;
  isError: boolean;
  startTime: number;
  endTime: number;
}

export function randomTraceId(): string {
  return randomHex(16);
}

export function toolCallSpan(frame: SpanFrame, sequenceId: number, call: ToolCallRecord): Span {
  return spanOf(frame, sequenceId, {
    name: spanNames.toolCall,
    attributes: {
      [attributeKeys.toolName]: call.name,
      [attributeKeys.toolArguments]: cut(JSON.stringify(call.arguments) ?? ""),
      [attributeKeys.toolResult]: cut(call.result),
      [attributeKeys.toolError]: call.isError,
    },
    startTime: call.startTime,
    endTime: call.endTime,
    ...(call.isError ? { error: cut(call.result) } : {}),
  });
}

export function rewardSpan(frame: SpanFrame, sequenceId: number, value: number, time: number): Span {
  return spanOf(frame, sequenceId, {
    name: spanNames.annotation,
    attributes: rewardAttributes(value),
    startTime: time,
    endTime: time,
  });
}

/** Recording an exception is not itself a failure: the status is OK, as upstream writes it. */
export function exceptionSpan(frame: SpanFrame, sequenceId: number, error: ErrorReport, time: number): Span {
  return spanOf(frame, sequenceId, {
    name: spanNames.exception,
    attributes: {
      [attributeKeys.exceptionType]: error.type,
      [attributeKeys.exceptionMessage]: error.message,
      [attributeKeys.exceptionEscaped]: true,
      ...(error.stack === "" ? {} : { [attributeKeys.exceptionStacktrace]: error.stack }),
    },
    startTime: time,
    endTime: time,
  });
}

/** What a span says, without whose it is and its place. Times are Unix seconds. */
export interface SpanCore {
  name: string;
  attributes: Attributes;
  startTime: number;
  endTime: number;
  error?: string;
}

export function spanOf(frame: SpanFrame, sequenceId: number, core: SpanCore): Span {
  const spanId = randomHex(8);
  return {
    rollout_id: frame.rolloutId,
    attempt_id: frame.attemptId,
    sequence_id: sequenceId,
    trace_id: frame.traceId,
    span_id: spanId,
    parent_id: null,
    name: core.name,
    status:
      core.error === undefined
        ? { status_code: "OK", description: null }
        : { status_code: "ERROR", description: core.error },
    attributes: core.attributes,
    events: [],
    links: [],
    start_time: core.startTime,
    end_time: core.endTime,
    context: { trace_id: frame.traceId, span_id: spanId, is_remote: false, trace_state: {} },
    parent: null,
    resource: { attributes: {}, schema_url: "" },
  };
}

function cut(text: string): string {
  return text.length > maxAttributeLength ? `${text.slice(0, maxAttributeLength)} [cut]` : text;
}

function randomHex(bytes: number): string {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(bytes))).toString("hex");
}
