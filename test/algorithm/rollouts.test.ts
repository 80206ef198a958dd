import { afterEach, describe, expect, test } from "bun:test";
import { summariseTraining, summariseValidation } from "../../src/algorithm/evaluation.ts";
import { type RolloutPhase, type RolloutProgress, runRollouts } from "../../src/algorithm/rollouts.ts";
import { AglError } from "../../src/errors.ts";
import { openStore, type SqliteStore } from "../../src/store/sqlite-store.ts";
import { rewardSpan } from "../helpers/spans.ts";

const stores: SqliteStore[] = [];

afterEach(async () => {
  for (const store of stores.splice(0)) await store.close();
});

function openPhase(options: Partial<RolloutPhase> = {}): RolloutPhase & { store: SqliteStore } {
  const store = openStore({ path: ":memory:" });
  stores.push(store);
  return {
    tasks: [{ input: "a" }, { input: "b" }, { input: "c" }],
    mode: "train",
    resourcesId: "rs-1",
    metadata: { iteration: 1 },
    config: {},
    timeoutSeconds: 10,
    signal: new AbortController().signal,
    ...options,
    store,
  };
}

/** Takes rollouts as a runner would and ends them with what `outcome` says: a reward, or a reason of failure. */
async function work(
  store: SqliteStore,
  total: number,
  outcome: (input: unknown) => number | string,
): Promise<void> {
  for (let done = 0; done < total;) {
    for (const { rollout_id, attempt, input } of await store.dequeueRollouts({ limit: 2, wait_seconds: 5 })) {
      const result = outcome(input);
      if (typeof result === "number") await store.addSpan(rewardSpan(rollout_id, attempt.attempt_id, result));
      const end =
        typeof result === "string"
          ? ({ status: "failed", metadata: { reason: result } } as const)
          : ({ status: "succeeded" } as const);
      await store.updateAttempt(rollout_id, attempt.attempt_id, end);
      done += 1;
    }
  }
}

describe("a phase of rollouts", () => {
  test("queues every task with mode, resources and metadata, and returns them in task order", async () => {
    const progress: RolloutProgress[] = [];
    const phase = openPhase({ onProgress: (step) => progress.push(step) });
    const working = work(phase.store, 3, () => 1);
    const finished = await runRollouts(phase);
    await working;
    expect(finished.map(({ rollout }) => rollout.input)).toEqual(phase.tasks);
    expect(finished[0]?.rollout).toMatchObject({
      mode: "train",
      resources_id: "rs-1",
      metadata: { iteration: 1 },
    });
    expect(finished.every(({ spans }) => spans.length === 1)).toBe(true);
    expect(progress.at(-1)).toEqual({ done: 3, failed: 0, total: 3 });
  });

  test("keeps the reason a runner gave for each failure, and goes on with the others", async () => {
    const phase = openPhase();
    const working = work(phase.store, 3, (input) =>
      (input as { input: string }).input === "b" ? "tool died" : 1,
    );
    const finished = await runRollouts(phase);
    await working;
    expect(finished.map(({ failure }) => failure)).toEqual([undefined, "tool died", undefined]);
    expect(summariseValidation(finished)).toMatchObject({ n: 3, failed: 1 });
    expect(summariseValidation(finished).mean).toBeCloseTo(2 / 3);
    expect(summariseTraining(finished)).toMatchObject({ n: 2, mean: 1 });
  });

  test("whose runners never come ends at its limit and says how far it got", async () => {
    const phase = openPhase({ timeoutSeconds: 0 });
    const error = await runRollouts(phase).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(AglError);
    expect((error as AglError).message).toContain("only 0 of 3 rollouts finished");
  });

  test("ends at once when it is stopped", async () => {
    const controller = new AbortController();
    const phase = openPhase({ signal: controller.signal });
    const running = runRollouts(phase).catch((reason: unknown) => reason);
    setTimeout(() => controller.abort(new Error("stopped by the user")), 50);
    expect(await running).toBeInstanceOf(Error);
  });
});
