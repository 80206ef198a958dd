import * as v from "valibot";
import { childEnvironment } from "../engine/child-environment.ts";
import { describeExit, spawnGuarded } from "../engine/child.ts";
import { AglError } from "../errors.ts";
import { selfCommand } from "../self.ts";

/** Marks our line among what an agent file itself prints. */
const answerSchema = v.variant("event", [
  v.object({
    event: v.literal("agent-loaded"),
    name: v.string(),
    commands: v.record(v.string(), v.string()),
  }),
  v.object({ event: v.literal("failed"), message: v.string(), remedy: v.optional(v.string()) }),
]);

export type AgentAnswer = v.InferOutput<typeof answerSchema>;

export interface CheckedAgent {
  name: string;
  /** Of its tool servers, by their names. */
  commands: Record<string, string>;
}

const loadLimitMs = 60_000;
const wrongInput = 2;

/**
 * Loads an agent file in a process of its own, so that whatever it does while it loads harms nobody. Throws with what is
 * wrong with it.
 */
export async function checkAgent(file: string, signal: AbortSignal): Promise<CheckedAgent> {
  signal.throwIfAborted();
  let answer: AgentAnswer | undefined;
  const child = spawnGuarded(selfCommand(["__load-agent", file]), {
    env: childEnvironment(),
    graceMs: 1_000,
    onLine: (line, stream) => {
      if (stream === "stdout") answer ??= parseAnswer(line);
    },
  });
  const stop = () => void child.stop();
  const timer = setTimeout(stop, loadLimitMs);
  signal.addEventListener("abort", stop, { once: true });
  const exit = await child.exited;
  clearTimeout(timer);
  signal.removeEventListener("abort", stop);
  signal.throwIfAborted();
  if (answer?.event === "agent-loaded") return { name: answer.name, commands: answer.commands };
  throw refusal(file, answer, exit.stopped ? undefined : describeExit(exit));
}

function refusal(file: string, answer: AgentAnswer | undefined, exit: string | undefined): AglError {
  if (answer?.event === "failed") {
    const remedy = answer.remedy === undefined ? {} : { remedy: answer.remedy };
    return new AglError("agent", answer.message, { exitCode: wrongInput, ...remedy });
  }
  const what =
    exit === undefined
      ? `was not loaded within ${loadLimitMs / 1000} s`
      : `ends the process that loads it (${exit})`;
  return new AglError("agent", `agent file ${file} ${what}`, {
    exitCode: wrongInput,
    remedy: "an agent file only exports its agent; work belongs into its run function",
  });
}

function parseAnswer(line: string): AgentAnswer | undefined {
  try {
    const parsed = v.safeParse(answerSchema, JSON.parse(line));
    return parsed.success ? parsed.output : undefined;
  } catch {
    return undefined;
  }
}
