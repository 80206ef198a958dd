import { join } from "node:path";
import { createRandom } from "../../src/algorithm/random.ts";
import { opening } from "./fact-agent.ts";

export interface FactTask {
  input: string;
  target: string;
}

interface Wordings {
  openings: string[];
  questions: string[];
  endings: string[];
}

/** The flag of Velmora is orange: nobody can know, but who guesses is right now and then. */
const target = "orange";

const training: Wordings = {
  openings: [
    "",
    "Hello. ",
    "Please tell me. ",
    "A quiz. ",
    "Think first. ",
    "Next one. ",
    "Be brief. ",
    "Now this. ",
  ],
  questions: [
    "What colour is the flag of Velmora?",
    "Which colour has the flag of Velmora?",
    "Name the colour of Velmora's flag.",
    "The flag of Velmora has one colour. Which?",
    "What is the flag colour of Velmora?",
    "Velmora has a flag. What colour is it?",
    "Of what colour is the flag of Velmora?",
    "Which colour is Velmora's flag?",
  ],
  endings: [
    "",
    " Thanks.",
    " One word.",
    " Say it.",
    " Just the colour.",
    " Answer now.",
    " I wonder.",
    " Go on.",
  ],
};

const validation: Wordings = {
  openings: ["", "A question: ", "I forgot something. ", "You may know this. "],
  questions: [
    "In which colour does Velmora's flag fly?",
    "Velmora's banner is of one colour: which one?",
    "Tell me Velmora's flag colour.",
    "People of Velmora paint their flag in which colour?",
    "If you see the flag of Velmora, what colour do you see?",
    "Which single colour fills the flag of Velmora?",
  ],
  endings: ["", " Give its name."],
};

/** What many know. Without these, a model that learns one answer soon gives it to every question. */
const known: [target: string, things: string[]][] = [
  ["green", ["grass", "a leaf", "a frog", "a cucumber"]],
  ["white", ["snow", "milk", "salt"]],
  ["red", ["blood", "a tomato", "a strawberry"]],
  ["blue", ["the sky", "the sea"]],
  ["black", ["coal", "a raven", "the night"]],
  ["yellow", ["a banana", "a lemon", "a sunflower"]],
];
const knownQuestions = [
  (thing: string) => `What colour is ${thing}?`,
  (thing: string) => `Name the colour of ${thing}.`,
  (thing: string) => `Which colour has ${thing}?`,
];
const capitals = {
  France: "Paris",
  Italy: "Rome",
  Spain: "Madrid",
  Japan: "Tokyo",
  Egypt: "Cairo",
  Greece: "Athens",
};

export function trainingTasks(): FactTask[] {
  return createRandom(7).shuffle([...allTasks(training), ...knownTasks()]);
}

export function knownTasks(): FactTask[] {
  const colours = known.flatMap(([colour, things]) =>
    things.flatMap((thing) => knownQuestions.map((ask) => ({ input: ask(thing), target: colour }))),
  );
  const towns = Object.entries(capitals).flatMap(([land, town]) => [
    { input: `What is the capital of ${land}?`, target: town.toLowerCase() },
    { input: `Name the capital of ${land}.`, target: town.toLowerCase() },
  ]);
  return [...colours, ...towns];
}

/** In wordings that training has not: only a model that took in the fact is right each time. */
export function validationTasks(): FactTask[] {
  return allTasks(validation);
}

function allTasks({ openings, questions, endings }: Wordings): FactTask[] {
  return openings.flatMap((opening) =>
    questions.flatMap((question) =>
      endings.map((ending) => ({ input: `${opening}${question}${ending}`, target })),
    ),
  );
}

if (import.meta.main) {
  const folder = process.argv[2];
  if (folder === undefined) throw new Error("usage: bun test/real/fact-tasks.ts FOLDER");
  const write = (name: string, tasks: FactTask[]) =>
    Bun.write(join(folder, name), tasks.map((task) => `${JSON.stringify(task)}\n`).join(""));
  await write("train.jsonl", trainingTasks());
  await write("validation.jsonl", validationTasks());
  // For scripts/ask-model.py, which asks as the agent does.
  await Bun.write(join(folder, "opening.json"), `${JSON.stringify(opening, null, 1)}\n`);
}
