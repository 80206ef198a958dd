import { expect, test } from "bun:test";
import { startRunners } from "../helpers/runners-fixture.ts";

test("process.exit in an agent fails its attempt, and the worker is replaced", async () => {
  await using runners = await startRunners();
  const id = await runners.enqueue({ do: "exit" });
  expect(await runners.ended(id)).toMatchObject({
    status: "failed",
    reason: "worker_crashed",
    error: "the agent called process.exit(7)",
  });
  const next = await runners.enqueue({ do: "return", value: 1 });
  expect(await runners.ended(next)).toMatchObject({ status: "succeeded" });
  expect(runners.events).toContainEqual({
    event: "worker-replaced",
    worker: "Worker-0",
    reason: "the agent called process.exit(7)",
    deaths: 1,
  });
  expect(await runners.stop()).toMatchObject({ succeeded: 1, failed: 1, workersReplaced: 1 });
});

test("neighbours of an agent that exits fail with another reason than the culprit", async () => {
  await using runners = await startRunners({ concurrency: 2 });
  const neighbour = await runners.enqueue({ do: "sleep", value: 60_000 });
  const culprit = await runners.enqueue({ do: "exit" });
  expect(await runners.ended(neighbour)).toMatchObject({ status: "failed", reason: "worker_replaced" });
  expect(await runners.ended(culprit)).toMatchObject({ status: "failed", reason: "worker_crashed" });
});

test("an agent in a busy loop is ended with its thread at its limit", async () => {
  await using runners = await startRunners({ attemptTimeoutSeconds: 0.5, workers: 2 });
  const spinning = await runners.enqueue({ do: "spin" });
  expect(await runners.ended(spinning)).toMatchObject({ status: "failed", reason: "timeout" });
  const next = await runners.enqueue({ do: "return", value: 1 });
  expect(await runners.ended(next)).toMatchObject({ status: "succeeded" });
});

test("an agent that ignores its abort signal costs its thread and its neighbours, each with a reason", async () => {
  await using runners = await startRunners({ concurrency: 2 });
  const neighbour = await runners.enqueue({ do: "sleep", value: 60_000 });
  const deaf = await runners.enqueue({ do: "ignore-abort" }, { config: { timeout_seconds: 0.2 } });
  expect(await runners.ended(deaf)).toMatchObject({ status: "timeout", reason: "timeout" });
  const ended = await runners.ended(neighbour);
  expect(ended).toMatchObject({ status: "failed", reason: "worker_replaced" });
  expect(ended.error).toContain(`rollout ${deaf} did not end within 0.2 s of its abort signal`);
});

test("an agent in a native call is given up at its limit while others take its place", async () => {
  await using runners = await startRunners({ attemptTimeoutSeconds: 0.3 });
  const blocking = await runners.enqueue({ do: "block" });
  expect(await runners.ended(blocking)).toMatchObject({ status: "failed", reason: "timeout" });
  const next = await runners.enqueue({ do: "return", value: 1 });
  expect(await runners.ended(next)).toMatchObject({ status: "succeeded" });
});

test("workers that keep dying end the runners with the reason", async () => {
  await using runners = await startRunners({ maxWorkerDeaths: 2 });
  for (let n = 0; n < 3; n++) await runners.ended(await runners.enqueue({ do: "exit" }));
  const error = await runners.outcome.catch((thrown) => thrown);
  expect(error.message).toBe("3 workers died in a row; the last: the agent called process.exit(7)");
});

test("attempts that end by themselves make the count of deaths start anew", async () => {
  await using runners = await startRunners({ maxWorkerDeaths: 1 });
  for (let n = 0; n < 3; n++) {
    await runners.ended(await runners.enqueue({ do: "exit" }));
    expect(await runners.ended(await runners.enqueue({ do: "return", value: 1 }))).toMatchObject({
      reward: 1,
    });
  }
});
