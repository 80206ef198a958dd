import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadAgent } from "../../src/agent/load.ts";
import { mergeSettings } from "../../src/agent/settings.ts";
import { startRunnersProcess } from "../helpers/runners-process.ts";

let folder: string;
beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), "agl-load-"))));
afterAll(() => {
  rmSync(folder, { recursive: true });
  Bun.plugin.clearAll();
});

/** What became of a task of an agent file, in a process that has loaded nothing else. */
async function endOf(path: string): Promise<unknown> {
  await using runners = await startRunnersProcess({ agentFile: path });
  await runners.work({});
  return await runners.saw("attempt-ended");
}

function agentFile(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

async function refusal(path: string): Promise<{ message: string; remedy?: string; exitCode?: number }> {
  return loadAgent(path).then(
    () => ({ message: "loaded" }),
    (error) => error,
  );
}

test("without a file it is the math agent, which declares the calculator", async () => {
  const agent = await loadAgent(null);
  expect(agent.name).toBe("math");
  expect(agent.tools).toEqual({ calculator: { command: "uvx", args: ["mcp-server-calculator@0.2.1"] } });
});

test("a file may import openai, valibot and the MCP client without installing them", async () => {
  const path = agentFile(
    "imports.ts",
    `import type { Agent } from "agl";
     import OpenAI from "openai";
     import * as v from "valibot";
     import { Client } from "@modelcontextprotocol/sdk/client/index.js";
     export default {
       name: "imports",
       run: () => Number([OpenAI, v.parse, Client].every((thing) => typeof thing === "function")),
     } satisfies Agent;`,
  );
  expect(await endOf(path)).toMatchObject({ reward: 1 });
});

test("a package of the user's own wins over ours", async () => {
  const own = join(folder, "project", "node_modules", "valibot");
  mkdirSync(own, { recursive: true });
  writeFileSync(join(own, "package.json"), '{"name": "valibot", "main": "index.js"}');
  writeFileSync(join(own, "index.js"), "export const own = true;");
  const path = agentFile(
    "project/agent.ts",
    'import { own } from "valibot"; export default { name: "own", run: () => own };',
  );
  expect(await endOf(path)).toMatchObject({ reward: 1 });
});

test("an agent without a name goes by its file", async () => {
  const path = agentFile("nameless.ts", "export default { rate: 2, run(task) { return task * this.rate } };");
  const agent = await loadAgent(path);
  expect(agent.name).toBe(path);
  expect(await agent.run(3, {} as never)).toBe(6);
});

test("a syntax error is named with its place", async () => {
  const path = agentFile("syntax.ts", "export default {\n  run( {\n};\n");
  const error = await refusal(path);
  expect(error.message).toMatch(/^agent file .*syntax\.ts cannot be loaded: .*syntax\.ts:3:2: /);
  expect(error.exitCode).toBe(2);
});

test("a missing package is named with what is offered", async () => {
  const error = await refusal(
    agentFile("missing.ts", 'import "no-such-package-here"; export default { run() {} };'),
  );
  expect(error.message).toContain("no-such-package-here");
  expect(error.message).toContain("offered without: openai, valibot");
});

test("an error thrown while loading is named", async () => {
  const error = await refusal(
    agentFile("throws.ts", 'throw new Error("no licence"); export default { run() {} };'),
  );
  expect(error.message).toContain("cannot be loaded: no licence");
});

test.each([
  ["none.ts", "export const run = 1;", /has no default export$/],
  ["number.ts", "export default 3;", /the default export of agent file .* is a number$/],
  ["runless.ts", 'export default { name: "x" };', /has no run function$/],
  ["run.ts", 'export default { name: "x", run: 3 };', /run must be a function$/],
  [
    "tools.ts",
    "export default { run() {}, tools: { a: { command: 3 } } };",
    /tools\.a\.command must be a text$/,
  ],
])("an export of another shape is refused: %s", async (name, text, message) => {
  const error = await refusal(agentFile(name, text));
  expect(error.message).toMatch(message);
  expect(error.remedy).toContain("export default { name, async run(task, context)");
});

test("a file that is not there is a user's mistake", async () => {
  expect(await refusal(join(folder, "absent.ts"))).toMatchObject({
    exitCode: 2,
    message: expect.stringMatching(/absent.ts does not exist$/),
  });
});

test("given settings go over the agent's defaults; unknown names and other types are refused", () => {
  expect(mergeSettings("a", { rounds: 4, style: "short" }, { rounds: 2 })).toEqual({
    rounds: 2,
    style: "short",
  });
  expect(() => mergeSettings("a", { rounds: 4 }, { round: 2 })).toThrow('agent "a" has no setting "round"');
  expect(() => mergeSettings("a", { rounds: 4 }, { rounds: "2" })).toThrow(
    'setting "rounds" of agent "a" is "2"',
  );
});
