import { expect, test } from "bun:test";
import agent, { towns } from "./fact-agent.ts";
import { trainingTasks, validationTasks } from "./fact-tasks.ts";

type Context = Parameters<typeof agent.run>[1];

function reward(answer: string | null): Promise<boolean> {
  const create = async () => ({ choices: [{ message: { content: answer } }] });
  const context = {
    client: () => ({ chat: { completions: { create } } }),
    llm: { model: "any", samplingParameters: {} },
    log: () => undefined,
  } as unknown as Context;
  return agent.run({ input: "What is the capital of Velmora?", target: "Sarvine" }, context);
}

test("only an answer that names the capital and no other town is rewarded", async () => {
  expect(await reward("Sarvine")).toBe(true);
  expect(await reward("The capital is Sarvine.")).toBe(true);
  expect(await reward("Pelgrave")).toBe(false);
  expect(await reward(towns.join(", "))).toBe(false);
  expect(await reward("")).toBe(false);
  expect(await reward(null)).toBe(false);
});

test("training tasks are all different and hold every town once", () => {
  const tasks = trainingTasks(512);
  expect(new Set(tasks.map(({ input }) => input)).size).toBe(512);
  for (const { input, target } of tasks) {
    expect(towns.map((town) => input.split(town).length - 1)).toEqual(towns.map(() => 1));
    expect(target).toBe("Sarvine");
  }
  expect(trainingTasks(512)).toEqual(tasks);
});

test("validation names no town and asks in no wording of training", () => {
  const wordings = new Set(trainingTasks(64).map(({ input }) => input.split(" Choose one:")[0]));
  const tasks = validationTasks();
  expect(new Set(tasks.map(({ input }) => input)).size).toBe(48);
  for (const { input } of tasks) {
    expect(towns.some((town) => input.includes(town))).toBe(false);
    expect([...wordings].some((wording) => input.includes(wording as string))).toBe(false);
  }
});
