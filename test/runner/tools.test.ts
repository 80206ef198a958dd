import { expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AglError } from "../../src/errors.ts";
import { eventually, isAlive } from "../helpers/processes.ts";
import { type RunnersFixture, startRunners, toolAgent } from "../helpers/runners-fixture.ts";

function start(): Promise<RunnersFixture> {
  return startRunners({ agentFile: toolAgent, concurrency: 4 });
}

test("each tool call leaves a span with name, arguments and result, before the reward", async () => {
  await using runners = await start();
  const id = await runners.enqueue({
    calls: [
      ["add", { a: 1, b: 2 }],
      ["fail", {}],
    ],
  });
  expect(await runners.ended(id)).toMatchObject({ status: "succeeded", reward: 1, toolCalls: 2 });
  const spans = await runners.spans(id);
  expect(spans.map((span) => span.name)).toEqual([
    "agl.tool_call",
    "agl.tool_call",
    "agentlightning.annotation",
  ]);
  expect(spans[0]).toMatchObject({
    attributes: { "agl.tool.name": "add", "agl.tool.arguments": '{"a":1,"b":2}', "agl.tool.result": "3" },
    status: { status_code: "OK" },
    sequence_id: 1,
  });
  expect(spans[1]).toMatchObject({
    attributes: { "agl.tool.result": "it went wrong", "agl.tool.error": true },
    status: { status_code: "ERROR" },
  });
});

test("a tool server that does not start ends the runners with what it said, before any rollout is taken", async () => {
  const folder = mkdtempSync(join(tmpdir(), "agl-tools-"));
  const agentFile = join(folder, "agent.ts");
  const args = JSON.stringify([join(import.meta.dir, "../helpers/fake-mcp-server.ts"), "exits"]);
  writeFileSync(
    agentFile,
    `export default { name: "x", tools: { fake: { command: process.execPath, args: ${args} } }, run: () => 1 };`,
  );
  await using runners = await startRunners({ agentFile });
  const id = await runners.enqueue({});
  const error = await runners.outcome.catch((thrown) => thrown);
  rmSync(folder, { recursive: true });
  expect(error).toBeInstanceOf(AglError);
  expect(error.message).toBe(
    'tool server "fake" ended before it came up (exit code 3); last line on stderr: fake: no licence found',
  );
  expect((await runners.store.getRollout(id))?.status).toBe("queuing");
});

test("a call over its limit is an error for the model, and the episode goes on", async () => {
  await using runners = await start();
  const id = await runners.enqueue({
    calls: [
      ["sleep", { seconds: 60 }, 0.1],
      ["add", { a: 1, b: 2 }],
    ],
  });
  expect(await runners.ended(id)).toMatchObject({ status: "succeeded", reward: 1, toolCalls: 2 });
});

test("a tool server that dies in a call fails that attempt with its stderr; the next finds a new server", async () => {
  await using runners = await start();
  const id = await runners.enqueue({ calls: [["die", {}]] });
  expect(await runners.ended(id)).toMatchObject({ status: "failed", reason: "tool_server" });
  const metadata = (await runners.store.getLatestAttempt(id))?.metadata;
  expect(metadata).toMatchObject({ reason: "tool_server", stderr: ["fake: out of cheese"] });
  const next = await runners.enqueue({ calls: [["add", {}]] });
  expect(await runners.ended(next)).toMatchObject({ reward: 1 });
  expect(runners.events.some((event) => event.event === "tool-server-replaced")).toBe(true);
});

test("a hung tool server is replaced under the attempts that use it", async () => {
  await using runners = await start();
  const hanging = await runners.enqueue({ calls: [["hang", {}, 0.2]] });
  const others = await Promise.all([1, 2, 3].map((a) => runners.enqueue({ calls: [["add", { a }]] })));
  expect(await runners.ended(hanging)).toMatchObject({ status: "succeeded", reward: 0 });
  for (const id of others) expect(await runners.ended(id)).toMatchObject({ status: "succeeded", reward: 1 });
});

test("a replaced thread keeps its worker's warm tool server; a stop leaves no server behind", async () => {
  await using runners = await start();
  const serverPid = async () => {
    const id = await runners.enqueue({ calls: [["pid", {}]] });
    await runners.ended(id);
    return Number((await runners.spans(id))[0]?.attributes["agl.tool.result"]);
  };
  const pid = await serverPid();
  expect(isAlive(pid)).toBe(true);
  await runners.ended(await runners.enqueue({ calls: "not a list" }));
  expect(await serverPid()).toBe(pid);
  await runners.stop();
  expect(await eventually(() => !isAlive(pid))).toBe(true);
});
