import type OpenAI from "openai";
import type { Mode } from "../protocol/enums.ts";
import type { JsonObject, NamedResources } from "../protocol/types.ts";

/** How to start an MCP server that speaks over stdin and stdout. */
export interface ToolServerCommand {
  command: string;
  args?: string[];
  /** Added to the small environment that every tool server gets. */
  env?: Record<string, string>;
}

/** The model to ask, with the address that records this attempt's calls. */
export interface AgentLlm {
  baseURL: string;
  model: string;
  apiKey: string;
  samplingParameters: JsonObject;
}

export interface ToolAnswer {
  text: string;
  isError: boolean;
  /** `structuredContent` of the server's result, when there is one. */
  structured?: unknown;
}

export type ToolDefinition = OpenAI.Chat.Completions.ChatCompletionFunctionTool;

export interface AgentTools {
  /** Every tool of the agent's servers, ready for a chat request's `tools`. */
  list(): Promise<ToolDefinition[]>;
  /**
   * A tool's own error, and a call past its limit, come back with `isError`; the episode can go on.
   * Throws when the server died.
   */
  call(name: string, args: JsonObject, options?: { limitSeconds?: number }): Promise<ToolAnswer>;
}

export interface AgentContext<Settings = JsonObject> {
  rolloutId: string;
  attemptId: string;
  mode: Mode | null;
  llm: AgentLlm;
  resources: NamedResources;
  /** Aborted when the attempt's time is over or the run is stopped. */
  signal: AbortSignal;
  tools: AgentTools;
  settings: Settings;
  /** A line kept with the attempt; the last ones are stored when it fails. `console` does the same. */
  log(line: string): void;
  /** An intermediate reward. The final one is what `run` returns. */
  reward(value: number | boolean): void;
  /**
   * An OpenAI client for `llm` whose requests end with `signal`. With the tracer `openai`, the runner records its chat
   * completions itself.
   */
  client(): OpenAI;
}

/** What a run returns: the final reward, or nothing when there is none. */
export type AgentReward = number | boolean | null | undefined | void;

/**
 * An agent works on one task at a time and says how well it went. Agent files export one as their default.
 * Several runs share a thread, so what belongs to one run stays in its variables.
 */
export interface Agent<Task = any, Settings = any> {
  name: string;
  /** MCP servers, started once per worker and kept warm. */
  tools?: Record<string, ToolServerCommand>;
  /** Names and default values of what can be set from outside. */
  settings?: Settings;
  run(task: Task, context: AgentContext<Settings>): Promise<AgentReward> | AgentReward;
}
