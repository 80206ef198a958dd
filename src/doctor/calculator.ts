import type { ToolServerCommand } from "../agent/agent.ts";
import { McpConnection } from "../agent/mcp-connection.ts";
import { toolCommand } from "../agent/tool-command.ts";
import { ToolServerError } from "../agent/tool-server-error.ts";
import { messageOf } from "../errors.ts";
import { type Finding, ok, problem, warning } from "./check.ts";

export interface CalculatorOptions {
  server: ToolServerCommand;
  uvx: string[] | undefined;
  environment: Record<string, string>;
  startLimitMs: number;
  signal: AbortSignal;
}

const callLimitMs = 10_000;
const notCached = /not found in the cache|network (was|is|connectivity is) disabled|--offline/i;

/** Starts the math agent's calculator, without a network, and asks it for 2+2. */
export async function checkCalculator(options: CalculatorOptions): Promise<Finding> {
  const started = performance.now();
  let connection: McpConnection | undefined;
  try {
    const command = toolCommand(options.server, options.uvx);
    connection = await McpConnection.connect({
      name: "calculator",
      command: command.offline ?? command.online,
      environment: options.environment,
      startLimitMs: options.startLimitMs,
      signal: options.signal,
    });
    const outcome = await connection.call("calculate", { expression: "2+2" }, callLimitMs, options.signal);
    const seconds = ((performance.now() - started) / 1000).toFixed(1);
    const answer = outcome.kind === "answer" ? outcome.answer.text.trim() : outcome.kind;
    if (answer === "4") return ok(`started and answered 2+2 after ${seconds} s`);
    return problem(
      `2+2 is ${JSON.stringify(answer.slice(0, 100))} for it`,
      "clear its cache with `uv cache clean mcp-server-calculator`",
    );
  } catch (error) {
    return failed(error, options.server);
  } finally {
    await connection?.close();
  }
}

function failed(error: unknown, { command, args = [] }: ToolServerCommand): Finding {
  const said = error instanceof ToolServerError ? [error.message, ...error.stderr].join("\n") : "";
  if (notCached.test(said)) {
    return warning(
      "it is not in uv's cache yet, and is fetched on first use",
      `with a network, run \`${[command, ...args].join(" ")} </dev/null\` once to have it offline`,
    );
  }
  const missing = said.includes("was not found");
  return problem(
    messageOf(error),
    missing
      ? "install uv (`pip install uv`), or name its uvx with AGL_UVX"
      : `see what \`${[command, ...args].join(" ")}\` says`,
  );
}
