/**
 * What the runners themselves record of an attempt. `otel`: rewards, tool calls and errors; the model calls are left to
 * a recording proxy. `openai`: also each chat completion of the client an agent gets, with its token ids.
 */
export const tracers = ["otel", "openai"] as const;
export type TracerName = (typeof tracers)[number];
