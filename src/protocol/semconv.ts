/** Span names and attribute keys of agentlightning 0.3.0, and the few that are ours (`agl.`). */
export const spanNames = {
  annotation: "agentlightning.annotation",
  message: "agentlightning.message",
  object: "agentlightning.object",
  exception: "agentlightning.exception",
  operation: "agentlightning.operation",
  reward: "agentlightning.reward",
  virtual: "agentlightning.virtual",
  proxyRequest: "Received Proxy Server Request",
  proxyRequestFailed: "Failed Proxy Server Request",
  litellmRequest: "litellm_request",
  rawRequest: "raw_gen_ai_request",
  /** One chat completion, seen from the agent's side. */
  chatCompletion: "openai.chat.completion",
  /** Ours: one call of an agent's tool. */
  toolCall: "agl.tool_call",
} as const;

export const attributeKeys = {
  rolloutId: "agentlightning.rollout_id",
  attemptId: "agentlightning.attempt_id",
  sequenceId: "agentlightning.span_sequence_id",
  rewardPrefix: "agentlightning.reward",
  operationName: "agentlightning.operation.name",
  exceptionType: "exception.type",
  exceptionMessage: "exception.message",
  exceptionStacktrace: "exception.stacktrace",
  exceptionEscaped: "exception.escaped",
  responseId: "gen_ai.response.id",
  /** Ours: id of the checkpoint that answered, e.g. `version_1`. */
  checkpoint: "agl.call.checkpoint",
  /** Ours: true when prompt and response ids are complete and agree with `usage`. */
  tokenExact: "agl.call.token_exact",
  /** Ours: why a call is not exact. */
  inexactReason: "agl.call.inexact_reason",
  /** Ours: the agent went away before the answer was complete. */
  aborted: "agl.call.aborted_by_client",
  /** Ours: the call reached an attempt that had already ended. */
  stale: "agl.call.stale",
  /** Ours: how often the client had tried this call before, when it is a repetition. */
  retry: "agl.call.retry",
  streamed: "agl.call.streamed",
  /** Ours: the arguments of some tool call in the answer are not JSON. */
  toolArgumentsInvalid: "agl.call.tool_arguments_invalid",
  toolName: "agl.tool.name",
  toolArguments: "agl.tool.arguments",
  toolResult: "agl.tool.result",
  toolError: "agl.tool.error",
} as const;
