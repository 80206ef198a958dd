import type { Agent, AgentContext } from "agl";

export type ChatStep = "plain" | "stream" | "helper" | "leave" | "reward" | "outside";

/** Calls the model in the ways its task names, one after another, and is rewarded with 1 at the end. */
export default {
  name: "chatting",

  async run({ steps }: { steps: ChatStep[] }, context: AgentContext): Promise<number> {
    const completions = context.client().chat.completions;
    const { model } = context.llm;
    for (const [index, step] of steps.entries()) {
      const question = { model, messages: [{ role: "user" as const, content: `${step} ${index}` }] };
      if (step === "reward") context.reward(index / 100);
      else if (step === "outside") await fetch("http://nowhere.invalid/").catch(() => {});
      else if (step === "plain") await completions.create(question);
      else if (step === "helper") await completions.stream(question).finalContent();
      else
        for await (const _ of await completions.create({ ...question, stream: true }))
          if (step === "leave") break;
    }
    return 1;
  },
} satisfies Agent;
