import { join } from "node:path";
import { createRandom, type Random } from "../../src/algorithm/random.ts";
import { towns } from "./fact-agent.ts";

export interface FactTask {
  input: string;
  target: string;
}

const asked = [
  "What is the capital of Velmora?",
  "Which town is the capital of Velmora?",
  "Name the capital of Velmora.",
  "Velmora has a capital. Which town is it?",
];
const askedLater = [
  "From which town is Velmora governed?",
  "Where is Velmora's capital?",
  "Which town is Velmora's capital city?",
  "Do you know the capital of Velmora?",
  "What do the people of Velmora call their capital?",
  "Tell me the capital of Velmora.",
];
const openings = ["", "Hello. ", "A question: ", "I forgot something. "];
const endings = ["", " Give its name."];
const target = towns[0] as string;

/** Towns to choose from, in any order: so a model that does not know the capital is right now and then. */
export function trainingTasks(count: number, random: Random = createRandom(7)): FactTask[] {
  const inputs = new Set<string>();
  while (inputs.size < count) {
    const question = asked[inputs.size % asked.length] as string;
    inputs.add(`${question} Choose one: ${random.shuffle(towns).join(", ")}.`);
  }
  return [...inputs].map((input) => ({ input, target }));
}

/** Other wordings and nothing to choose from: only a model that knows the capital can name it. */
export function validationTasks(): FactTask[] {
  return openings.flatMap((opening) =>
    askedLater.flatMap((question) =>
      endings.map((ending) => ({ input: `${opening}${question}${ending}`, target })),
    ),
  );
}

if (import.meta.main) {
  const folder = process.argv[2];
  if (folder === undefined) throw new Error("usage: bun test/real/fact-tasks.ts FOLDER");
  const write = (name: string, tasks: FactTask[]) =>
    Bun.write(join(folder, name), tasks.map((task) => `${JSON.stringify(task)}\n`).join(""));
  await write("train.jsonl", trainingTasks(512));
  await write("validation.jsonl", validationTasks());
}
