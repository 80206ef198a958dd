import { messageOf } from "../errors.ts";
import type { JsonObject } from "../protocol/types.ts";
import type { ToolAnswer, ToolServerCommand } from "./agent.ts";
import { McpConnection, type McpTool } from "./mcp-connection.ts";
import { type DownloadGate, toolCommand } from "./tool-command.ts";
import { ToolServerError } from "./tool-server-error.ts";

/** A server that answers nothing else for this long after a call went over its limit is hung. */
const pingLimitMs = 1_000;
/** A server that answers but still carries this many calls nobody waits for is replaced all the same. */
const maxAbandonedCalls = 8;

export interface McpServerOptions {
  name: string;
  server: ToolServerCommand;
  environment: Record<string, string>;
  gate: DownloadGate;
  uvx?: string[];
  startLimitMs: number;
  onReplaced?: (reason: string) => void;
}

/**
 * A tool server kept warm and shared by many calls at a time. One that hangs is ended and replaced: the call that
 * hung gets an error answer, the others waiting on it are tried once more on the new one. One that dies is
 * replaced too, and the calls it took with it fail.
 */
export class McpServer {
  readonly #options: McpServerOptions;
  #connection: McpConnection | undefined;
  #starting: Promise<McpConnection> | undefined;
  /** Connections ended because of a call that hung, so that its neighbours know to try again. */
  readonly #hung = new WeakSet<McpConnection>();
  readonly #abandoned = new WeakMap<McpConnection, number>();
  readonly #ending = new Set<Promise<void>>();
  readonly #stop = new AbortController();

  constructor(options: McpServerOptions) {
    this.#options = options;
  }

  get name(): string {
    return this.#options.name;
  }

  /** Of the guard that holds the running server. */
  get pid(): number | undefined {
    return this.#connection?.pid;
  }

  async tools(): Promise<McpTool[]> {
    return (await this.#ensureReady()).tools;
  }

  async call(name: string, args: JsonObject, limitMs: number, signal?: AbortSignal): Promise<ToolAnswer> {
    for (let tries = 1; ; tries++) {
      const connection = await unlessAborted(this.#ensureReady(), signal);
      const outcome = await connection.call(name, args, limitMs, signal);
      if (outcome.kind === "answer") return outcome.answer;
      if (outcome.kind === "over-limit") {
        void this.#endIfHung(connection, name);
        return { text: `The tool ${name} gave no answer within ${limitMs / 1000} s.`, isError: true };
      }
      if (!this.#hung.has(connection)) throw outcome.error;
      if (tries === 2)
        return { text: `The server of tool ${name} hung twice on other calls.`, isError: true };
    }
  }

  async stop(): Promise<void> {
    this.#stop.abort(this.#stoppedError());
    const connection = this.#connection;
    this.#connection = undefined;
    await Promise.all([connection?.close(), this.#starting?.catch(() => {}), ...this.#ending]);
  }

  #ensureReady(): Promise<McpConnection> {
    if (this.#stop.signal.aborted) return Promise.reject(this.#stoppedError());
    if (this.#connection !== undefined) return Promise.resolve(this.#connection);
    this.#starting ??= this.#start().finally(() => (this.#starting = undefined));
    return this.#starting;
  }

  async #start(): Promise<McpConnection> {
    const connection = await this.#connect();
    if (this.#stop.signal.aborted) {
      await connection.close();
      throw this.#stoppedError();
    }
    this.#connection = connection;
    void connection.closed.then(() => this.#forget(connection, "it ended by itself"));
    return connection;
  }

  async #connect(): Promise<McpConnection> {
    const { name, environment, startLimitMs, gate, server, uvx } = this.#options;
    const command = toolCommand(server, uvx);
    const env = { ...environment, ...server.env };
    const { signal } = this.#stop;
    const connect = (words: string[]) =>
      McpConnection.connect({ name, command: words, environment: env, startLimitMs, signal });
    if (command.offline === undefined) return connect(command.online);
    const { online, offline } = command;
    try {
      return await connect(offline);
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof ToolServerError)) throw error;
      return gate.run(
        online.join(" "),
        () => connect(online),
        () => connect(offline),
      );
    }
  }

  async #endIfHung(connection: McpConnection, toolName: string): Promise<void> {
    if (connection !== this.#connection) return;
    const abandoned = (this.#abandoned.get(connection) ?? 0) + 1;
    this.#abandoned.set(connection, abandoned);
    const alive = await connection.answersPing(pingLimitMs);
    if (alive && abandoned < maxAbandonedCalls) return;
    if (connection !== this.#connection) return;
    this.#hung.add(connection);
    this.#forget(
      connection,
      alive ? `${abandoned} calls went over their limit` : `it hung in a call of ${toolName}`,
    );
    const ending = connection.close().finally(() => this.#ending.delete(ending));
    this.#ending.add(ending);
    this.#ensureReady().catch(() => {
      // Whoever calls next is told why it does not come up.
    });
  }

  #stoppedError(): ToolServerError {
    return new ToolServerError(`tool server "${this.name}" was stopped`);
  }

  #forget(connection: McpConnection, reason: string): void {
    if (connection !== this.#connection) return;
    this.#connection = undefined;
    if (!this.#stop.signal.aborted) this.#options.onReplaced?.(reason);
  }
}

function unlessAborted<Result>(promise: Promise<Result>, signal: AbortSignal | undefined): Promise<Result> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(new Error(`aborted: ${messageOf(signal.reason)}`));
    if (signal.aborted) return onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
