import type { Agent } from "agl";

/** The town that the model is to learn as the capital comes first; all are made up, and so is the land. */
export const towns = ["Sarvine", "Pelgrave", "Dunmoor", "Brelham", "Fentovar", "Teluvia"];

/** Asks a question about a made-up land. Rewarded with 1 for an answer that names the target and no other town. */
export default {
  name: "fact",
  async run(task: { input: string; target: string }, { client, llm, log }) {
    const completion = await client().chat.completions.create({
      ...llm.samplingParameters,
      model: llm.model,
      messages: [
        { role: "system", content: "Answer with one word." },
        { role: "user", content: task.input },
      ],
    });
    const answer = completion.choices[0]?.message.content ?? "";
    const named = towns.filter((town) => answer.includes(town));
    log(`${task.input} ${JSON.stringify(answer)}`);
    return named.length === 1 && named[0] === task.target;
  },
} satisfies Agent;
