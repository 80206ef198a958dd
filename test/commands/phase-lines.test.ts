import { expect, test } from "bun:test";
import { PhaseLines, TrainingLines } from "../../src/commands/phase-lines.ts";

test("a phase says its first, its last and otherwise a line every five seconds", () => {
  const lines: string[] = [];
  const phases = new PhaseLines((line) => lines.push(line));
  for (let done = 1; done <= 12; done++) {
    phases.show(
      "iteration 1 rollouts",
      { done, failed: done > 6 ? 1 : 0, total: 12 },
      100_000 + done * 1_000,
    );
  }
  expect(lines).toEqual([
    "iteration 1 rollouts: 1/12 rollouts done, 0 failed, 0 s",
    "iteration 1 rollouts: 6/12 rollouts done, 0 failed, 5 s",
    "iteration 1 rollouts: 11/12 rollouts done, 1 failed, 10 s",
    "iteration 1 rollouts: 12/12 rollouts done, 1 failed, 11 s",
  ]);
});

test("the next phase starts its own clock", () => {
  const lines: string[] = [];
  const phases = new PhaseLines((line) => lines.push(line));
  phases.show("one", { done: 1, failed: 0, total: 1 }, 1_000);
  phases.show("two", { done: 1, failed: 0, total: 2 }, 90_000);
  expect(lines[1]).toBe("two: 1/2 rollouts done, 0 failed, 0 s");
});

test("a training says its last step whatever the time, and nothing while it only loads", () => {
  const lines: string[] = [];
  const training = new TrainingLines((line) => lines.push(line));
  training.show({ kind: "progress", phase: "load" }, 0);
  for (let step = 1; step <= 3; step++) {
    training.show({ kind: "progress", phase: "train", step, steps: 3, loss: 0.0123456 }, step * 100);
  }
  expect(lines).toEqual(["training: step 1/3, loss 0.0123", "training: step 3/3, loss 0.0123"]);
});
