import { expect, test } from "bun:test";
import { eventually, isAlive } from "../helpers/processes.ts";
import { toolAgent, wildAgent } from "../helpers/runners-fixture.ts";
import { startRunnersProcess } from "../helpers/runners-process.ts";

test("it tells when it is ready, what became of attempts, and how it ended", async () => {
  await using runners = await startRunnersProcess({ agentFile: wildAgent });
  expect(await runners.saw("ready")).toMatchObject({ agent: "wild", workers: 1, concurrency: 4, tools: [] });
  expect((await runners.work({ do: "return", value: 1 })).status).toBe("succeeded");
  expect(await runners.saw("attempt-ended")).toMatchObject({ status: "succeeded", reward: 1 });
  runners.child.kill("SIGTERM");
  expect(await runners.saw("stopped")).toMatchObject({ succeeded: 1, failed: 0 });
  expect(await runners.child.exited).toBe(143);
});

test("errors that no agent awaits fail the attempts they may belong to, and nothing else", async () => {
  await using runners = await startRunnersProcess({ agentFile: wildAgent, concurrency: 2 });
  const neighbour = runners.work({ do: "sleep", value: 400 });
  const thrower = await runners.work({ do: "timer" });
  expect(thrower.attempt.metadata).toMatchObject({ reason: "agent_error", error: "thrown from a timer" });
  expect((await neighbour).status).toBe("succeeded");

  const alone = await runners.work({ do: "floating" });
  expect(alone.attempt.metadata).toMatchObject({ reason: "agent_error", error: "nobody waits for me" });

  const together = await Promise.all([
    runners.work({ do: "sleep", value: 60_000 }),
    runners.work({ do: "floating" }),
  ]);
  for (const { attempt } of together) {
    expect(attempt.metadata).toMatchObject({
      reason: "worker_crashed",
      error: "an error that no agent awaited: Error: nobody waits for me",
    });
  }
  expect(await runners.saw("worker-replaced")).toMatchObject({ worker: "Worker-0", deaths: 1 });
  expect((await runners.work({ do: "return", value: 1 })).status).toBe("succeeded");
});

test.each(["SIGTERM", "SIGINT"] as const)("%s cancels what is running", async (signal) => {
  await using runners = await startRunnersProcess({ agentFile: wildAgent });
  const cancelled = runners.work({ do: "wait" });
  expect(
    await eventually(
      async () => (await runners.store.queryRollouts({ status_in: ["preparing"] })).total === 1,
    ),
  ).toBe(true);
  runners.child.kill(signal);
  expect((await cancelled).attempt).toMatchObject({ status: "failed", metadata: { reason: "cancelled" } });
  expect(await runners.child.exited).toBe(signal === "SIGINT" ? 130 : 143);
});

test("an error after its attempt's end does no harm to the attempts that still run", async () => {
  await using runners = await startRunnersProcess({ agentFile: wildAgent, concurrency: 2 });
  const neighbour = runners.work({ do: "sleep", value: 300 });
  expect((await runners.work({ do: "late-error" })).status).toBe("succeeded");
  expect((await neighbour).status).toBe("succeeded");
  expect(runners.stderr()).toContain("an error after its attempt: Error: too late to matter");
});

test("a thread in a native call does not hold up the end", async () => {
  await using runners = await startRunnersProcess({ agentFile: wildAgent });
  const cancelled = runners.work({ do: "block", value: 20 });
  expect(
    await eventually(
      async () => (await runners.store.queryRollouts({ status_in: ["preparing"] })).total === 1,
    ),
  ).toBe(true);
  runners.child.kill("SIGTERM");
  expect((await cancelled).attempt.metadata).toMatchObject({ reason: "cancelled" });
  const exited = await Promise.race([runners.child.exited, Bun.sleep(15_000)]);
  expect(exited).toBe(143);
});

test("it ends when its parent's end of stdin closes, tool servers included", async () => {
  await using runners = await startRunnersProcess({ agentFile: toolAgent });
  await runners.work({ calls: [["pid", {}]] });
  const server = await toolServerPid(runners.store);
  expect(isAlive(server)).toBe(true);
  await runners.child.stdin.end();
  expect(await runners.child.exited).toBe(0);
  expect(await eventually(() => !isAlive(server))).toBe(true);
});

test("kill -9 leaves no tool server behind", async () => {
  await using runners = await startRunnersProcess({ agentFile: toolAgent });
  await runners.work({ calls: [["pid", {}]] });
  const server = await toolServerPid(runners.store);
  expect(isAlive(server)).toBe(true);
  runners.child.kill("SIGKILL");
  expect(await eventually(() => !isAlive(server), 5_000)).toBe(true);
});

test.each([
  ["{", 2, "the first line on stdin is not JSON"],
  ['{"storeUrl": "http://127.0.0.1:9", "workers": 0}', 2, "runners: workers: "],
])("options it cannot use end it with a reason: %s", async (line, exitCode, message) => {
  await using runners = await startRunnersProcess(line);
  expect(await runners.child.exited).toBe(exitCode);
  expect(runners.stderr()).toContain(message);
});

test("an agent that cannot be loaded ends it with the reason and no stack", async () => {
  await using runners = await startRunnersProcess({ agentFile: "missing-agent.ts" });
  expect(await runners.saw("failed")).toMatchObject({
    message: "agent file missing-agent.ts does not exist",
  });
  expect(await runners.child.exited).toBe(2);
  expect(runners.stderr()).toContain("error: agent file missing-agent.ts does not exist");
  expect(runners.stderr()).not.toContain("    at ");
});

async function toolServerPid(store: {
  querySpans(query: { rollout_id: string }): Promise<{ items: { attributes: Record<string, unknown> }[] }>;
  queryRollouts(query: object): Promise<{ items: { rollout_id: string }[] }>;
}): Promise<number> {
  const [rollout] = (await store.queryRollouts({})).items;
  const [span] = (await store.querySpans({ rollout_id: rollout!.rollout_id })).items;
  return Number(span?.attributes["agl.tool.result"]);
}
