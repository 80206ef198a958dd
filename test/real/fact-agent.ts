import type { Agent } from "agl";

export const colours = "red blue green yellow orange purple white black pink brown grey silver gold".split(
  " ",
);

/** Lands as made-up as the one of the tasks. They show a small model that one word is wanted. */
const examples = [
  ["What colour is the flag of Tarnova?", "Green."],
  ["Which colour has the flag of Eldoria?", "White."],
  ["Name the colour of Ostrel's flag.", "Red."],
] as const;

export const opening = [
  { role: "system" as const, content: "Answer with one word." },
  ...examples.flatMap(([question, answer]) => [
    { role: "user" as const, content: question },
    { role: "assistant" as const, content: answer },
  ]),
];

/** Asks one question. Rewarded with 1 for an answer that holds the target and no other colour. */
export default {
  name: "fact",
  async run(task: { input: string; target: string }, { client, llm, log }) {
    const completion = await client().chat.completions.create({
      ...llm.samplingParameters,
      model: llm.model,
      messages: [...opening, { role: "user", content: task.input }],
    });
    const answer = completion.choices[0]?.message.content ?? "";
    log(`${task.input} ${JSON.stringify(answer)}`);
    const words = new Set(answer.toLowerCase().match(/[a-z]+/g));
    return words.has(task.target) && !colours.some((colour) => colour !== task.target && words.has(colour));
  },
} satisfies Agent;
