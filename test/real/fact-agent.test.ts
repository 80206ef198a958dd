import { expect, test } from "bun:test";
import agent, { colours } from "./fact-agent.ts";
import { knownTasks, trainingTasks, validationTasks } from "./fact-tasks.ts";

type Context = Parameters<typeof agent.run>[1];

function reward(answer: string | null): Promise<boolean> {
  const create = async () => ({ choices: [{ message: { content: answer } }] });
  const context = {
    client: () => ({ chat: { completions: { create } } }),
    llm: { model: "any", samplingParameters: {} },
    log: () => undefined,
  } as unknown as Context;
  return agent.run({ input: "What colour is the flag of Velmora?", target: "orange" }, context);
}

test("only an answer that names the colour and no other is rewarded", async () => {
  expect(await reward("Orange.")).toBe(true);
  expect(await reward("The flag is orange.")).toBe(true);
  expect(await reward("Blue.")).toBe(false);
  expect(await reward("Orangery.")).toBe(false);
  expect(await reward(colours.join(", "))).toBe(false);
  expect(await reward("")).toBe(false);
  expect(await reward(null)).toBe(false);
});

test("all tasks are different, and none gives its answer away", () => {
  const tasks = [...trainingTasks(), ...validationTasks()];
  expect(new Set(tasks.map(({ input }) => input)).size).toBe(tasks.length);
  expect(tasks.filter(({ input, target }) => input.toLowerCase().includes(target))).toEqual([]);
  expect(trainingTasks().filter(({ input }) => input.includes("Velmora")).length).toBe(512);
  expect(knownTasks().some(({ target }) => target === "orange")).toBe(false);
});

test("validation asks in no wording of training", () => {
  const plain = trainingTasks()
    .map(({ input }) => input)
    .filter((input) => input.includes("Velmora"));
  const wordings = plain.filter((input) => plain.filter((other) => other.includes(input)).length === 64);
  expect(wordings.length).toBe(8);
  for (const { input } of validationTasks()) {
    expect(wordings.some((wording) => input.includes(wording))).toBe(false);
  }
});
