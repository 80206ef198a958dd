import { loadAgent } from "../agent/load.ts";
import { AglError, messageOf, UsageError } from "../errors.ts";
import type { AgentAnswer } from "./check-agent.ts";

/** `agl __load-agent FILE`: loads an agent file and says on stdout what came of it. */
export async function loadAgentFile([file]: string[]): Promise<number> {
  if (file === undefined) throw new UsageError("__load-agent: no file is named");
  try {
    const { name: agentName, tools = {} } = await loadAgent(file);
    const commands = Object.fromEntries(Object.entries(tools).map(([name, { command }]) => [name, command]));
    answer({ event: "agent-loaded", name: agentName, commands });
    return 0;
  } catch (error) {
    const remedy = error instanceof AglError && error.remedy !== undefined ? { remedy: error.remedy } : {};
    answer({ event: "failed", message: messageOf(error), ...remedy });
    return 1;
  }
}

function answer(value: AgentAnswer): void {
  // A file that prints without an end of line must not hide it.
  process.stdout.write(`\n${JSON.stringify(value)}\n`);
}
