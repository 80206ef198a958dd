import type { Random } from "../../src/algorithm/random.ts";

/** What the published benchmark's agent does in one rollout, step by step. */
export type Step = { sleepSeconds: number } | { span: PlannedSpan };

export interface PlannedSpan {
  name: string;
  /** Spans without attributes of their own are the rounds' parents. */
  attributes: "nested" | "task" | "none" | { reward: number };
}

export interface AgentShape {
  maxRounds: number;
  sleepSeconds: number;
}

/**
 * 1 to `maxRounds` rounds of a parent span and two children, each child after a sleep; after a round, with chance 1/2,
 * a reward below 1; then a final span after a sleep, and a reward from 1 to 2. One round carries the task.
 */
export function planRollout(random: Random, { maxRounds, sleepSeconds }: AgentShape): Step[] {
  const steps: Step[] = [];
  const sleep = () => steps.push({ sleepSeconds: random.next() * sleepSeconds });
  const span = (name: string, attributes: PlannedSpan["attributes"]) =>
    steps.push({ span: { name, attributes } });
  const rounds = 1 + random.integer(maxRounds);
  const taskRound = random.integer(rounds);
  for (let round = 0; round < rounds; round += 1) {
    sleep();
    span(`round${round}_1`, round === taskRound ? "task" : "nested");
    sleep();
    span(`round${round}_2`, "nested");
    span(`agent${round}`, "none");
    if (random.next() < 0.5) span("reward", { reward: random.next() });
  }
  sleep();
  span("final", "nested");
  span("reward", { reward: 1 + random.next() });
  return steps;
}

export function sleepOf(steps: readonly Step[]): number {
  return steps.reduce((total, step) => total + ("sleepSeconds" in step ? step.sleepSeconds : 0), 0);
}

export function spansOf(steps: readonly Step[]): PlannedSpan[] {
  return steps.flatMap((step) => ("span" in step ? [step.span] : []));
}
