import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import type { JSONRPCMessage } from "@modelcontextprotocol/sdk/types.js";
import { selfCommand } from "../self.ts";
import { within } from "./within.ts";

const keptLines = 20;
const keptLineLength = 500;
const maxLineLength = 16 * 1024 * 1024;
const drainLimitMs = 500;
const closeLimitMs = 4_000;
/** Between SIGTERM and SIGKILL. */
const graceMs = 1_000;

/**
 * A tool server's process, started under the guard: closing our end, or dying, ends its whole process tree.
 * Text on its stdout that is not the protocol is skipped and kept, to be named when the server does not come up.
 */
export class GuardedStdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  /** Last lines of stderr. */
  readonly stderr: string[] = [];
  /** First lines of stdout that were not the protocol. */
  readonly noise: string[] = [];
  exit: { code: number | null; signal: string | null } | undefined;
  readonly #command: string[];
  readonly #environment: Record<string, string>;
  #process: Bun.Subprocess<"pipe", "pipe", "pipe"> | undefined;
  #ended: Promise<void> = Promise.resolve();

  constructor(command: string[], environment: Record<string, string>) {
    this.#command = command;
    this.#environment = environment;
  }

  /** Of the guard; the server is its descendant. */
  get pid(): number | undefined {
    return this.#process?.pid;
  }

  async start(): Promise<void> {
    const { environment, command } = forServerOnly(this.#environment, this.#command);
    const child = Bun.spawn(selfCommand(["__guard", String(graceMs), ...command]), {
      env: environment,
      stdin: "pipe",
      stdout: "pipe",
      stderr: "pipe",
      // A terminal's Ctrl-C is for the host, which then ends its servers itself.
      detached: true,
    });
    this.#process = child;
    const reading = Promise.allSettled([
      readLines(child.stdout, (line) => this.#take(line)),
      readLines(child.stderr, (line) => remember(this.stderr, line, "last")),
    ]);
    this.#ended = child.exited.then(async () => {
      await within(drainLimitMs, reading);
      this.exit = {
        code: child.exitCode,
        signal: child.signalCode === null ? null : String(child.signalCode),
      };
      this.onclose?.();
    });
  }

  async send(message: JSONRPCMessage): Promise<void> {
    if (this.#process === undefined || this.exit !== undefined) throw new Error("the tool server has ended");
    this.#process.stdin.write(JSON.stringify(message) + "\n");
    await this.#process.stdin.flush();
  }

  /** Closes stdin, which makes the guard end the tree: SIGTERM, a second later SIGKILL. */
  async close(): Promise<void> {
    if (this.#process === undefined) return;
    try {
      await this.#process.stdin.end();
    } catch {
      // Already closed by its exit.
    }
    await within(closeLimitMs, this.#ended);
    if (this.exit === undefined) this.#process.kill("SIGKILL");
    await this.#ended;
  }

  #take(line: string): void {
    const start = line.indexOf('{"');
    const message = start < 0 ? undefined : parseMessage(line.slice(start));
    const noise = message === undefined ? line : line.slice(0, start);
    if (noise.trim() !== "") remember(this.noise, noise, "first");
    if (message !== undefined) this.onmessage?.(message);
  }
}

/** Variables such as BUN_BE_BUN are meant for the server; in the guard, which is this program, they would take effect, too. */
function forServerOnly(
  environment: Record<string, string>,
  command: string[],
): { environment: Record<string, string>; command: string[] } {
  const variables = Object.entries(environment);
  const own = variables
    .filter(([name]) => name.startsWith("BUN_"))
    .map(([name, value]) => `${name}=${value}`);
  return {
    environment: Object.fromEntries(variables.filter(([name]) => !name.startsWith("BUN_"))),
    command: own.length === 0 ? command : ["env", ...own, ...command],
  };
}

function parseMessage(text: string): JSONRPCMessage | undefined {
  try {
    const value = JSON.parse(text);
    return value.jsonrpc === "2.0" ? value : undefined;
  } catch {
    return undefined;
  }
}

function remember(lines: string[], line: string, which: "first" | "last"): void {
  if (which === "first" && lines.length >= keptLines) return;
  lines.push(line.trimEnd().slice(0, keptLineLength));
  if (lines.length > keptLines) lines.shift();
}

async function readLines(stream: ReadableStream<Uint8Array>, take: (line: string) => void): Promise<void> {
  const decoder = new TextDecoder();
  let parts: string[] = [];
  let length = 0;
  for await (const chunk of stream) {
    const lines = decoder.decode(chunk, { stream: true }).split(/[\r\n]/);
    for (const [index, piece] of lines.entries()) {
      if (index > 0) {
        if (length > 0) take(parts.join(""));
        parts = [];
        length = 0;
      }
      if (length > maxLineLength) continue;
      parts.push(piece);
      length += piece.length;
    }
  }
  if (length > 0) take(parts.join(""));
}
