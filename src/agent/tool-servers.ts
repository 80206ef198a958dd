import { UsageError } from "../errors.ts";
import type { JsonObject } from "../protocol/types.ts";
import type { ToolAnswer, ToolDefinition, ToolServerCommand } from "./agent.ts";
import { McpServer } from "./mcp-server.ts";
import type { DownloadGate } from "./tool-command.ts";

export interface ToolServersOptions {
  servers: Record<string, ToolServerCommand>;
  environment: Record<string, string>;
  gate: DownloadGate;
  uvx?: string[];
  /** From the start of the command to its list of tools. */
  startLimitMs?: number;
  /** Of a call that names no limit itself. */
  callLimitMs?: number;
  onReplaced?: (server: string, reason: string) => void;
}

/** The warm tool servers of one worker, found by the names of their tools. */
export class ToolServers {
  readonly #servers: McpServer[];
  readonly #callLimitMs: number;
  readonly #byTool = new Map<string, McpServer>();
  #definitions: ToolDefinition[] = [];

  constructor(options: ToolServersOptions) {
    this.#callLimitMs = options.callLimitMs ?? 30_000;
    this.#servers = Object.entries(options.servers).map(
      ([name, server]) =>
        new McpServer({
          name,
          server,
          environment: options.environment,
          gate: options.gate,
          startLimitMs: options.startLimitMs ?? 120_000,
          onReplaced: (reason) => options.onReplaced?.(name, reason),
          ...(options.uvx === undefined ? {} : { uvx: options.uvx }),
        }),
    );
  }

  get definitions(): ToolDefinition[] {
    return this.#definitions;
  }

  get pids(): number[] {
    return this.#servers.map((server) => server.pid).filter((pid) => pid !== undefined);
  }

  /** Starts every server and learns its tools. */
  async start(): Promise<void> {
    const lists = await Promise.all(
      this.#servers.map(async (server) => ({ server, tools: await server.tools() })),
    );
    this.#definitions = [];
    for (const { server, tools } of lists) {
      for (const { name, description, inputSchema } of tools) {
        const other = this.#byTool.get(name);
        if (other !== undefined) {
          throw new UsageError(
            `tool servers "${other.name}" and "${server.name}" both have a tool "${name}"`,
          );
        }
        this.#byTool.set(name, server);
        this.#definitions.push({
          type: "function",
          function: { name, description, parameters: inputSchema },
        });
      }
    }
  }

  async call(
    name: string,
    args: JsonObject,
    options: { limitMs?: number; signal?: AbortSignal } = {},
  ): Promise<ToolAnswer> {
    const server = this.#byTool.get(name);
    if (server === undefined) {
      const names = [...this.#byTool.keys()].join(", ");
      return { text: `There is no tool "${name}". Tools: ${names === "" ? "none" : names}.`, isError: true };
    }
    return server.call(name, args, options.limitMs ?? this.#callLimitMs, options.signal);
  }

  async stop(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.stop()));
  }
}
