import type { Agent } from "agl";

/** Two calls, a reward between them, a reward at the end. */
export default {
  name: "two-calls",
  async run(task: { question: string; expected: string }, { client, llm, reward }) {
    const model = llm.model;
    const first = await client().chat.completions.create({
      model,
      messages: [{ role: "user", content: task.question }],
    });
    reward(0.25);
    const stream = client().chat.completions.stream({
      model,
      messages: [
        { role: "user", content: task.question },
        { role: "assistant", content: first.choices[0]?.message.content ?? "" },
        { role: "user", content: "And?" },
      ],
    });
    if ((await stream.finalContent()) !== task.expected) throw new Error("another answer than expected");
    return 1;
  },
} satisfies Agent;
