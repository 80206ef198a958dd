import type { Agent, AgentContext } from "agl";

/** Calls the tools its task names, one after another, and returns how many answered without an error. */
export default {
  name: "tools",
  tools: {
    fake: { command: process.execPath, args: [new URL("./fake-mcp-server.ts", import.meta.url).pathname] },
  },

  async run(
    task: { calls: [string, Record<string, unknown>, number?][] },
    context: AgentContext,
  ): Promise<number> {
    let good = 0;
    for (const [name, args, limitSeconds] of task.calls) {
      const answer = await context.tools.call(name, args, limitSeconds === undefined ? {} : { limitSeconds });
      if (!answer.isError) good++;
    }
    return good;
  },
} satisfies Agent;
