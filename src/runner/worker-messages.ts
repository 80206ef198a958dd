import type { AgentLlm, ToolAnswer, ToolDefinition, ToolServerCommand } from "../agent/agent.ts";
import type { Mode } from "../protocol/enums.ts";
import type { JsonObject, NamedResources } from "../protocol/types.ts";
import type { SpanCore } from "./attempt-spans.ts";
import type { TracerName } from "./tracer.ts";

/** What the host and the thread that runs agents say to each other. `key` names a run within its thread. */
export type HostMessage =
  | { type: "load"; agentFile: string | null; settings: JsonObject }
  | { type: "run"; job: RunJob }
  | { type: "abort"; key: number; reason: string }
  | { type: "tool-answer"; call: number; answer: ToolAnswer }
  | { type: "tool-failed"; call: number; error: ErrorReport }
  /** A reward or a model call has its place in the order. */
  | { type: "placed"; call: number };

export type WorkerMessage =
  | { type: "loaded"; name: string; tools: Record<string, ToolServerCommand> }
  | { type: "load-failed"; message: string; remedy: string | undefined; exitCode: number }
  | { type: "tool-call"; key: number; call: number; name: string; arguments: JsonObject; limitMs?: number }
  /** `time` in Unix seconds. */
  | { type: "reward"; key: number; call: number; value: number; time: number }
  | { type: "model-call"; key: number; call: number; span: SpanCore }
  /** Without a key when the line belongs to no run. */
  | { type: "log"; key?: number; lines: string[] }
  | { type: "finished"; key: number; reward: number | null }
  | { type: "threw"; key: number; error: ErrorReport }
  /** An error nobody in the agent awaited; without a key it may belong to any run. */
  | { type: "escaped"; key?: number; error: ErrorReport }
  | { type: "exiting"; key?: number; code: number };

export interface RunJob {
  key: number;
  task: unknown;
  rolloutId: string;
  attemptId: string;
  mode: Mode | null;
  llm: AgentLlm;
  resources: NamedResources;
  /** Of this rollout alone, on top of the runners' own. */
  agentSettings: JsonObject;
  tools: ToolDefinition[];
  tracer: TracerName;
}

export interface ErrorReport {
  type: string;
  message: string;
  stack: string;
  /** Last lines a tool server wrote, when it was the cause. */
  stderr?: string[];
}

const maxTextLength = 8_000;

export function reportError(error: unknown): ErrorReport {
  if (!(error instanceof Error)) return { type: typeof error, message: cut(String(error)), stack: "" };
  const type = error.name === "Error" ? error.constructor.name : error.name;
  const stderr = (error as { stderr?: unknown }).stderr;
  return {
    type,
    message: cut(error.message),
    stack: cut(error.stack ?? ""),
    ...(Array.isArray(stderr) ? { stderr: stderr.map(String) } : {}),
  };
}

function cut(text: string): string {
  return text.length > maxTextLength ? `${text.slice(0, maxTextLength)} [cut]` : text;
}
