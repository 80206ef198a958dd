import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { ErrorCode, McpError, ResultSchema } from "@modelcontextprotocol/sdk/types.js";
import * as v from "valibot";
import { version } from "../../package.json" with { type: "json" };
import { messageOf } from "../errors.ts";
import type { JsonObject } from "../protocol/types.ts";
import type { ToolAnswer } from "./agent.ts";
import { GuardedStdioTransport } from "./mcp-transport.ts";
import { ToolServerError } from "./tool-server-error.ts";

const maxToolPages = 50;
const maxAnswerLength = 256 * 1024;

export interface McpTool {
  name: string;
  description: string;
  inputSchema: JsonObject;
}

export interface ConnectOptions {
  name: string;
  command: string[];
  environment: Record<string, string>;
  startLimitMs: number;
  /** Gives the start up. */
  signal: AbortSignal;
}

export type CallOutcome =
  | { kind: "answer"; answer: ToolAnswer }
  | { kind: "over-limit" }
  | { kind: "closed"; error: ToolServerError };

// The SDK's own schemas put the members of `inputSchema` into another order, and the model sees that order.
const toolsSchema = v.object({
  tools: v.array(
    v.looseObject({
      name: v.string(),
      description: v.optional(v.string(), ""),
      inputSchema: v.record(v.string(), v.unknown()),
    }),
  ),
  nextCursor: v.optional(v.string()),
});

const answerSchema = v.looseObject({
  content: v.optional(v.array(v.looseObject({ type: v.string(), text: v.optional(v.string()) })), []),
  structuredContent: v.optional(v.unknown()),
  isError: v.optional(v.boolean(), false),
});

/** One running tool server. It never comes back after `closed`; start another. */
export class McpConnection {
  readonly tools: McpTool[] = [];
  readonly #name: string;
  readonly #client: Client;
  readonly #transport: GuardedStdioTransport;
  readonly closed: Promise<void>;
  isClosed = false;

  private constructor(options: ConnectOptions) {
    this.#name = options.name;
    this.#transport = new GuardedStdioTransport(options.command, options.environment);
    this.#client = new Client({ name: "agl", version });
    this.closed = new Promise((resolve) => {
      this.#client.onclose = () => {
        this.isClosed = true;
        resolve();
      };
    });
  }

  /** Starts the server, greets it and asks for its tools; all of that within the start limit. */
  static async connect(options: ConnectOptions): Promise<McpConnection> {
    const [program = ""] = options.command;
    if (Bun.which(program, { PATH: options.environment["PATH"] ?? "" }) === null) {
      throw new ToolServerError(`tool server "${options.name}": the command ${program} was not found`);
    }
    options.signal.throwIfAborted();
    const connection = new McpConnection(options);
    const giveUp = () => void connection.close();
    options.signal.addEventListener("abort", giveUp, { once: true });
    const deadline = AbortSignal.timeout(options.startLimitMs);
    try {
      await connection.#client.connect(connection.#transport, { timeout: options.startLimitMs });
      await connection.#listTools(deadline, options.startLimitMs);
      return connection;
    } catch (error) {
      await connection.close();
      throw connection.#startError(error, options.startLimitMs);
    } finally {
      options.signal.removeEventListener("abort", giveUp);
    }
  }

  /** Of the guard that holds the server. */
  get pid(): number | undefined {
    return this.#transport.pid;
  }

  async call(name: string, args: JsonObject, limitMs: number, signal?: AbortSignal): Promise<CallOutcome> {
    if (this.isClosed) return { kind: "closed", error: this.#endError() };
    try {
      const result = await this.#client.request(
        { method: "tools/call", params: { name, arguments: args } },
        ResultSchema,
        { timeout: limitMs, ...(signal === undefined ? {} : { signal }) },
      );
      return { kind: "answer", answer: toAnswer(result) };
    } catch (error) {
      signal?.throwIfAborted();
      const code = error instanceof McpError ? error.code : undefined;
      if (code === ErrorCode.RequestTimeout) return { kind: "over-limit" };
      if (code === ErrorCode.ConnectionClosed || this.isClosed) {
        return { kind: "closed", error: this.#endError() };
      }
      return { kind: "answer", answer: { text: messageOf(error), isError: true } };
    }
  }

  /** Whether the server still answers at all. */
  async answersPing(limitMs: number): Promise<boolean> {
    try {
      await this.#client.ping({ timeout: limitMs });
      return true;
    } catch (error) {
      return error instanceof McpError && error.code === ErrorCode.MethodNotFound;
    }
  }

  async close(): Promise<void> {
    await this.#transport.close();
    await this.#client.close();
  }

  async #listTools(signal: AbortSignal, timeout: number): Promise<void> {
    let cursor: string | undefined;
    for (let page = 0; page < maxToolPages; page++) {
      const params = cursor === undefined ? {} : { cursor };
      const result = await this.#client.request({ method: "tools/list", params }, ResultSchema, {
        signal,
        timeout,
      });
      const parsed = v.parse(toolsSchema, result);
      for (const { name, description, inputSchema } of parsed.tools) {
        this.tools.push({ name, description, inputSchema });
      }
      cursor = parsed.nextCursor;
      if (cursor === undefined) return;
    }
    throw new Error(`its list of tools has more than ${maxToolPages} pages`);
  }

  #startError(error: unknown, limitMs: number): ToolServerError {
    const { exit, noise, stderr } = this.#transport;
    const code = error instanceof McpError ? error.code : undefined;
    const overLimit = code === ErrorCode.RequestTimeout || messageOf(error).includes("TimeoutError");
    const what = overLimit
      ? `did not come up within ${limitMs / 1000} s`
      : code === ErrorCode.ConnectionClosed
        ? `ended before it came up${exit?.code == null ? "" : ` (exit code ${exit.code})`}`
        : `did not come up: ${messageOf(error)}`;
    const cause =
      noise.length === 0 ? "" : `; its stdout is not the protocol but begins with ${quote(noise[0])}`;
    return new ToolServerError(`tool server "${this.#name}" ${what}${cause}${lastLine(stderr)}`, [...stderr]);
  }

  #endError(): ToolServerError {
    const { exit, stderr } = this.#transport;
    const how = exit?.signal
      ? ` (signal ${exit.signal})`
      : exit?.code == null
        ? ""
        : ` (exit code ${exit.code})`;
    return new ToolServerError(`tool server "${this.#name}" ended during the call${how}${lastLine(stderr)}`, [
      ...stderr,
    ]);
  }
}

function toAnswer(result: unknown): ToolAnswer {
  const parsed = v.safeParse(answerSchema, result);
  if (!parsed.success) return { text: "The tool server's answer is not a tool result.", isError: true };
  const { content, structuredContent, isError } = parsed.output;
  const text = content.map((part) => part.text ?? `[${part.type}]`).join("\n");
  return {
    text: text.length > maxAnswerLength ? `${text.slice(0, maxAnswerLength)} [cut]` : text,
    isError,
    ...(structuredContent === undefined ? {} : { structured: structuredContent }),
  };
}

function quote(text: string | undefined): string {
  return JSON.stringify((text ?? "").slice(0, 120));
}

function lastLine(stderr: string[]): string {
  const line = stderr.findLast((text) => text.trim() !== "");
  return line === undefined ? "" : `; last line on stderr: ${line.trim().slice(0, 300)}`;
}
