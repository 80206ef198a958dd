import { expect, test } from "bun:test";
import { startRunners } from "../helpers/runners-fixture.ts";
import { eventually } from "../helpers/processes.ts";

test("a returned number is stored as the last span, and the attempt succeeds", async () => {
  await using runners = await startRunners();
  const id = await runners.enqueue({ do: "rewards" });
  expect(await runners.ended(id)).toMatchObject({ status: "succeeded", reward: 0.5, worker: "Worker-0" });
  const spans = await runners.spans(id);
  expect(spans.map((span) => span.name)).toEqual(Array(3).fill("agentlightning.annotation"));
  expect(spans.map((span) => span.attributes["agentlightning.reward.0.value"])).toEqual([0.25, 1, 0.5]);
  expect(spans.map((span) => span.attributes["agentlightning.reward.0.name"])).toEqual(
    Array(3).fill("primary"),
  );
  expect(spans.map((span) => span.sequence_id)).toEqual([1, 2, 3]);
  expect((await runners.store.getRollout(id))?.status).toBe("succeeded");
});

test.each([
  [0, 0],
  [false, 0],
  [true, 1],
  [-3.5, -3.5],
])("%p is a reward", async (value, reward) => {
  await using runners = await startRunners();
  const id = await runners.enqueue({ do: "return", value });
  expect(await runners.ended(id)).toMatchObject({ status: "succeeded", reward });
  expect((await runners.spans(id)).at(-1)?.attributes["agentlightning.reward.0.value"]).toBe(reward);
});

test("an agent that returns nothing succeeds without a reward", async () => {
  await using runners = await startRunners();
  const id = await runners.enqueue({ do: "return", value: null });
  expect(await runners.ended(id)).toMatchObject({ status: "succeeded", reward: null });
  expect(await runners.spans(id)).toEqual([]);
});

test.each([
  [{ do: "nan" }, "NaN"],
  [{ do: "infinity" }, "Infinity"],
  [{ do: "return", value: "1" }, 'the text "1"'],
  [{ do: "return", value: { score: 1 } }, "of type object"],
])("a reward that is no finite number fails the attempt: %p", async (task, shown) => {
  await using runners = await startRunners();
  const id = await runners.enqueue(task);
  const ended = await runners.ended(id);
  expect(ended).toMatchObject({ status: "failed", reason: "invalid_reward" });
  expect(ended.error).toBe(`a reward must be a finite number, true or false, but this is ${shown}`);
});

test("what an agent threw is kept with the attempt: exception span, reason, and the last lines it printed", async () => {
  await using runners = await startRunners();
  const id = await runners.enqueue({ do: "throw" });
  expect(await runners.ended(id)).toMatchObject({
    status: "failed",
    reason: "agent_error",
    error: "no such thing",
  });
  const attempt = await runners.store.getLatestAttempt(id);
  expect(attempt?.status).toBe("failed");
  expect(attempt?.metadata).toMatchObject({
    reason: "agent_error",
    error: "no such thing",
    error_type: "TypeError",
  });
  const log = attempt?.metadata?.["log"] as string[];
  expect(log.length).toBe(20);
  expect(log.at(-1)).toBe("line 200");
  const [span] = await runners.spans(id);
  expect(span?.name).toBe("agentlightning.exception");
  expect(span?.attributes).toMatchObject({
    "exception.type": "TypeError",
    "exception.message": "no such thing",
  });
  expect(span?.attributes["exception.stacktrace"]).toContain("wild-agent.ts");
});

test("resources that are missing fail the attempt and do not stop the worker", async () => {
  await using runners = await startRunners({ model: null });
  const none = await runners.enqueue({ do: "return", value: 1 });
  expect(await runners.ended(none)).toMatchObject({
    reason: "resources_missing",
    error: "the store holds no resources",
  });
  await runners.store.addResources({
    greeting: { resource_type: "prompt_template", template: "Hi", engine: "f-string" },
  });
  const noModel = await runners.enqueue({ do: "return", value: 1 });
  expect(await runners.ended(noModel)).toMatchObject({ status: "failed", reason: "llm_missing" });
  expect((await runners.store.getLatestAttempt(noModel))?.status).toBe("failed");
});

test("an attempt past its limit fails; its agent is told to stop and the thread lives on", async () => {
  await using runners = await startRunners({ attemptTimeoutSeconds: 0.2 });
  const id = await runners.enqueue({ do: "wait" });
  expect(await runners.ended(id)).toMatchObject({ status: "failed", reason: "timeout" });
  const next = await runners.enqueue({ do: "return", value: 1 });
  expect(await runners.ended(next)).toMatchObject({ status: "succeeded" });
  expect(runners.events.some((event) => event.event === "worker-replaced")).toBe(false);
});

test("past the rollout's own limit the attempt ends as timeout, so that its retry condition applies", async () => {
  await using runners = await startRunners();
  const config = { timeout_seconds: 0.2, max_attempts: 2, retry_condition: ["timeout"] };
  const id = await runners.enqueue({ do: "wait" }, { config });
  expect(await runners.ended(id)).toMatchObject({ status: "timeout", reason: "timeout" });
  expect(await eventually(async () => (await runners.store.getRollout(id))?.status === "failed")).toBe(true);
  expect((await runners.store.queryAttempts(id)).total).toBe(2);
});

test("a stop ends running attempts as failed with reason cancelled, and leaves queued ones queued", async () => {
  await using runners = await startRunners({ concurrency: 2 });
  const running = [await runners.enqueue({ do: "wait" }), await runners.enqueue({ do: "ignore-abort" })];
  expect(
    await eventually(
      async () => (await runners.store.queryRollouts({ status_in: ["preparing"] })).total === 2,
    ),
  ).toBe(true);
  const queued = await runners.enqueue({ do: "return", value: 1 });
  const { succeeded, failedBecause } = await runners.stop();
  // One that was handed out in the moment of the stop is ended, too, but the runner never had it to count.
  expect({ succeeded, reasons: Object.keys(failedBecause) }).toEqual({
    succeeded: 0,
    reasons: ["cancelled"],
  });
  for (const id of running) {
    const attempt = await runners.store.getLatestAttempt(id);
    expect(attempt).toMatchObject({ status: "failed", metadata: { reason: "cancelled" } });
  }
  expect((await runners.store.getRollout(queued))?.status).toBe("queuing");
});

test("an attempt is kept alive beyond its silence limit", async () => {
  await using runners = await startRunners();
  const id = await runners.enqueue({ do: "sleep", value: 1200 }, { config: { unresponsive_seconds: 0.5 } });
  expect(await runners.ended(id)).toMatchObject({ status: "succeeded", reward: 1 });
  const attempt = await runners.store.getLatestAttempt(id);
  expect(attempt?.last_heartbeat_time ?? 0).toBeGreaterThan((attempt?.start_time ?? 0) + 0.5);
});

test("an attempt whose rollout is cancelled meanwhile is stopped and changes nothing", async () => {
  await using runners = await startRunners({ heartbeatSeconds: 0.1 });
  const id = await runners.enqueue({ do: "wait" });
  expect(await eventually(async () => (await runners.store.getRollout(id))?.status === "preparing")).toBe(
    true,
  );
  await runners.store.updateRollout(id, { status: "cancelled" });
  expect(await runners.ended(id)).toMatchObject({ status: "none", reason: "ended_elsewhere" });
  expect((await runners.store.getRollout(id))?.status).toBe("cancelled");
});

test("attempts on one thread keep their ids, settings and printed lines apart", async () => {
  await using runners = await startRunners({ concurrency: 16, agentSettings: { greeting: "salut" } });
  const ids = await Promise.all(
    Array.from({ length: 32 }, () => runners.enqueue({ do: "tell" }, { mode: "val" })),
  );
  for (const id of ids) {
    expect((await runners.ended(id)).error).toBe("told");
    const log = (await runners.store.getLatestAttempt(id))?.metadata?.["log"];
    expect(log).toEqual([`this is ${id}`, `still ${id} salut val`]);
  }
});

test("workers report themselves to the store", async () => {
  await using runners = await startRunners({ workers: 2, workerPrefix: "Box-" });
  for (const name of ["Box-0", "Box-1"]) {
    const reported = async () => (await runners.store.getWorker(name))?.heartbeat_stats != null;
    expect(await eventually(reported)).toBe(true);
    const stats = (await runners.store.getWorker(name))?.heartbeat_stats;
    expect(stats).toMatchObject({ cpu_threads: expect.any(Number), mem_total_gb: expect.any(Number) });
  }
});
