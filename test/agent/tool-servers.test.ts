import { afterEach, expect, test } from "bun:test";
import { join } from "node:path";
import { DownloadGate } from "../../src/agent/tool-command.ts";
import { ToolServerError } from "../../src/agent/tool-server-error.ts";
import { ToolServers, type ToolServersOptions } from "../../src/agent/tool-servers.ts";
import { childEnvironment } from "../../src/engine/child-environment.ts";
import { eventually, isAlive, processesWith } from "../helpers/processes.ts";

const fakeServer = join(import.meta.dir, "../helpers/fake-mcp-server.ts");
const opened: ToolServers[] = [];

function fake(mode: string): ToolServersOptions["servers"] {
  return { fake: { command: process.execPath, args: [fakeServer, mode] } };
}

function open(options: Partial<ToolServersOptions>): ToolServers {
  const environment = childEnvironment({}, { ...process.env, SECRET_TOKEN: "x" });
  const servers = new ToolServers({
    servers: fake("plain"),
    environment,
    gate: new DownloadGate(),
    ...options,
  });
  opened.push(servers);
  return servers;
}

async function started(options: Partial<ToolServersOptions>): Promise<ToolServers> {
  const servers = open(options);
  await servers.start();
  return servers;
}

async function pidOf(servers: ToolServers): Promise<number> {
  return Number((await servers.call("pid", {})).text);
}

afterEach(async () => {
  await Promise.all(opened.splice(0).map((servers) => servers.stop()));
});

test("tools are offered as the server describes them, members in the server's order", async () => {
  const servers = await started({});
  expect(JSON.stringify(servers.definitions[0])).toBe(
    '{"type":"function","function":{"name":"add","description":"The tool add.","parameters":' +
      '{"properties":{"a":{"type":"number"}},"required":[],"title":"addArguments","type":"object"}}}',
  );
});

test("many calls at a time share one server, and each gets its own answer", async () => {
  const servers = await started({});
  const sums = await Promise.all(Array.from({ length: 100 }, (_, a) => servers.call("add", { a, b: 1000 })));
  expect(sums.map((sum) => sum.text)).toEqual(Array.from({ length: 100 }, (_, a) => String(a + 1000)));
});

test("a tool's own error and an unknown tool are answers, not exceptions", async () => {
  const servers = await started({});
  expect(await servers.call("fail", {})).toEqual({ text: "it went wrong", isError: true });
  const unknown = await servers.call("divide", {});
  expect(unknown.isError).toBe(true);
  expect(unknown.text).toContain('There is no tool "divide". Tools: add, sleep');
});

test("the server does not see variables it has no need of", async () => {
  const servers = await started({});
  const names = (await servers.call("environment", {})).text.split(" ");
  expect(names).toContain("PATH");
  expect(names).not.toContain("SECRET_TOKEN");
});

test("variables that an agent declares for its server reach it", async () => {
  const env = { API_KEY: "k", BUN_OPTION_OF_ITS_OWN: "1" };
  const servers = await started({
    servers: { fake: { command: process.execPath, args: [fakeServer], env } },
  });
  const names = (await servers.call("environment", {})).text.split(" ");
  expect(names).toContain("API_KEY");
  expect(names).toContain("BUN_OPTION_OF_ITS_OWN");
});

test("a slow call gets an error answer at its limit while the server goes on", async () => {
  const servers = await started({ callLimitMs: 10_000 });
  const pid = await pidOf(servers);
  const slow = await servers.call("sleep", { seconds: 30 }, { limitMs: 100 });
  expect(slow).toEqual({ text: "The tool sleep gave no answer within 0.1 s.", isError: true });
  await Bun.sleep(50);
  expect(await pidOf(servers)).toBe(pid);
});

test("a hung server is killed and replaced; a neighbour's call is tried again on the new one", async () => {
  const reasons: string[] = [];
  const servers = await started({ onReplaced: (_, reason) => void reasons.push(reason) });
  const pid = await pidOf(servers);
  const hung = servers.call("hang", {}, { limitMs: 200 });
  const neighbour = servers.call("add", { a: 2, b: 3 });
  expect((await hung).isError).toBe(true);
  expect((await neighbour).text).toBe("5");
  expect(await pidOf(servers)).not.toBe(pid);
  expect(reasons).toEqual(["it hung in a call of hang"]);
  expect(await eventually(() => !isAlive(pid))).toBe(true);
});

test("a server that dies in a call fails that call at once with its last words, and the next call finds a new one", async () => {
  const servers = await started({});
  const error = await servers.call("die", {}).catch((thrown) => thrown);
  expect(error).toBeInstanceOf(ToolServerError);
  expect(error.message).toBe(
    'tool server "fake" ended during the call (exit code 1); last line on stderr: fake: out of cheese',
  );
  expect(error.stderr).toEqual(["fake: out of cheese"]);
  expect((await servers.call("add", { a: 1, b: 1 })).text).toBe("2");
});

test("text on stdout before the protocol is skipped, also without a line break", async () => {
  const servers = await started({ servers: fake("banner") });
  expect((await servers.call("add", { a: 1, b: 2 })).text).toBe("3");
});

test("a server that never answers is named with what it printed instead", async () => {
  const servers = open({
    servers: { fake: { command: "sh", args: ["-c", "echo Starting up; sleep 60"] } },
    startLimitMs: 1_500,
  });
  const start = servers.start();
  expect(start).rejects.toThrow(
    'tool server "fake" did not come up within 1.5 s; its stdout is not the protocol but begins with "Starting up"',
  );
  await start.catch(() => {});
});

test("a server that ends before it is up is reported with exit code and stderr", async () => {
  const servers = open({ servers: fake("exits") });
  const error = await servers.start().catch((thrown) => thrown);
  expect(error.message).toBe(
    'tool server "fake" ended before it came up (exit code 3); last line on stderr: fake: no licence found',
  );
});

test("a command that does not exist is named", async () => {
  const servers = open({ servers: { fake: { command: "no-such-command" } } });
  expect(servers.start()).rejects.toThrow('tool server "fake": the command no-such-command was not found');
});

test("two servers with the same tool are refused", async () => {
  const twice = { ...fake("plain"), other: { command: process.execPath, args: [fakeServer] } };
  expect(open({ servers: twice }).start()).rejects.toThrow(
    'tool servers "fake" and "other" both have a tool "add"',
  );
});

test("nothing is left after a stop, even of a server that ignores its stdin's end and SIGTERM", async () => {
  const servers = await started({ servers: fake("stubborn") });
  const pid = await pidOf(servers);
  expect(isAlive(pid)).toBe(true);
  await servers.stop();
  expect(isAlive(pid)).toBe(false);
  expect(servers.call("add", {})).rejects.toThrow('tool server "fake" was stopped');
});

test("a stop during the start leaves nothing behind", async () => {
  const mark = `mark-${crypto.randomUUID()}`;
  const silent = { command: process.execPath, args: [fakeServer, "silent", mark] };
  const servers = open({ servers: { silent }, startLimitMs: 60_000 });
  const start = servers.start().catch((error) => error);
  expect(await eventually(() => processesWith(mark).length > 1)).toBe(true);
  await servers.stop();
  expect(await start).toBeInstanceOf(ToolServerError);
  expect(processesWith(mark)).toEqual([]);
});
