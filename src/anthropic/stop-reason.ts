/** Why an answer ended, in the words of the Messages API. */
export interface Stop {
  stop_reason: "end_turn" | "max_tokens" | "stop_sequence" | "tool_use" | null;
  stop_sequence: string | null;
}

/** As vLLM decides it: a stop text that cut a tool call short wins over the call, which must not be made. */
export function stopOf(
  finishReason: unknown,
  stopReason: unknown,
  tools: { used: boolean; complete: boolean },
): Stop {
  if (finishReason === "length") return { stop_reason: "max_tokens", stop_sequence: null };
  if (finishReason !== "stop" && finishReason !== "tool_calls")
    return { stop_reason: null, stop_sequence: null };
  if (tools.complete) return { stop_reason: "tool_use", stop_sequence: null };
  if (typeof stopReason === "string") return { stop_reason: "stop_sequence", stop_sequence: stopReason };
  const used = finishReason === "tool_calls" || tools.used;
  return { stop_reason: used ? "tool_use" : "end_turn", stop_sequence: null };
}
