import type { Agent, AgentContext } from "agl";
import { spawnSync } from "node:child_process";

type Task = { do: string; value?: unknown };

/** An agent that does what its task says, well-behaved or not. */
export default {
  name: "wild",
  settings: { greeting: "hello" },

  async run(task: Task, context: AgentContext): Promise<any> {
    switch (task.do) {
      case "return":
        return task.value;
      case "nan":
        return Number.NaN;
      case "infinity":
        return Number.POSITIVE_INFINITY;
      case "throw":
        for (let line = 1; line <= 200; line++) console.error(`line ${line}`);
        throw new TypeError("no such thing");
      case "rewards":
        context.reward(0.25);
        context.reward(true);
        return 0.5;
      case "tell":
        return tell(context);
      case "wait":
        await new Promise((_, reject) =>
          context.signal.addEventListener("abort", () => reject(context.signal.reason)),
        );
        return 1;
      case "ignore-abort":
        await Bun.sleep(60_000);
        return 1;
      case "spin":
        for (;;);
      case "block":
        spawnSync("sleep", [String(task.value ?? 4)]);
        return 1;
      case "exit":
        process.exit(7);
      case "floating":
        void Promise.reject(new Error("nobody waits for me"));
        await Bun.sleep(60_000);
        return 1;
      case "timer":
        setTimeout(() => {
          throw new Error("thrown from a timer");
        }, 1);
        await Bun.sleep(60_000);
        return 1;
      case "late-error":
        setTimeout(() => {
          throw new Error("too late to matter");
        }, 50);
        return 1;
      case "sleep":
        await Bun.sleep(Number(task.value));
        return 1;
    }
    throw new Error(`unknown task ${task.do}`);
  },
} satisfies Agent;

/** Its own ids after a while in which other attempts ran on the same thread, checked against what it asks the model with. */
async function tell(context: AgentContext): Promise<number> {
  await Bun.sleep(20);
  console.log(`this is ${context.rolloutId}`);
  const expected = `/rollout/${context.rolloutId}/attempt/${context.attemptId}`;
  await Bun.sleep(20);
  console.log(`still ${context.rolloutId} ${context.settings["greeting"]} ${context.mode}`);
  if (!context.llm.baseURL.endsWith(expected)) return 0;
  throw new Error("told");
}
