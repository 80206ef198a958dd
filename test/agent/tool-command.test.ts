import { afterEach, beforeEach, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DownloadGate, toolCommand } from "../../src/agent/tool-command.ts";
import { ToolServers } from "../../src/agent/tool-servers.ts";
import { childEnvironment } from "../../src/engine/child-environment.ts";

const fakeServer = join(import.meta.dir, "../helpers/fake-mcp-server.ts");
let folder: string;
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), "agl-uvx-"))));
afterEach(() => rmSync(folder, { recursive: true }));

/** A package runner that has nothing in its cache until it was online once. */
function fakeUvx(online: string): string {
  const path = join(folder, "uvx");
  const server = `exec "${process.execPath}" "${fakeServer}"`;
  writeFileSync(
    path,
    `#!/bin/sh
echo "$*" >> "${folder}/calls"
if [ "$1" = --offline ]; then
  [ -e "${folder}/cache" ] || { echo "error: not found in the cache, and the network is disabled" >&2; exit 1; }
else
  ${online}
fi
${server}
`,
  );
  chmodSync(path, 0o755);
  return path;
}

function servers(uvx: string, gate: DownloadGate): ToolServers {
  const tool = { command: "uvx", args: ["some-tool@1"] };
  return new ToolServers({ servers: { tool }, environment: childEnvironment(), gate, uvx: [uvx] });
}

function calls(): string[] {
  return existsSync(join(folder, "calls"))
    ? readFileSync(join(folder, "calls"), "utf8").trim().split("\n")
    : [];
}

test("other commands than uvx are run as they are", () => {
  expect(toolCommand({ command: "node", args: ["server.js"] })).toEqual({ online: ["node", "server.js"] });
  expect(toolCommand({ command: "uvx", args: ["x"] }, ["/opt/uv", "tool", "run"])).toEqual({
    online: ["/opt/uv", "tool", "run", "x"],
    offline: ["/opt/uv", "tool", "run", "--offline", "x"],
  });
});

test("a tool in the cache is started without the network", async () => {
  const uvx = fakeUvx("exit 9");
  writeFileSync(join(folder, "cache"), "");
  const one = servers(uvx, new DownloadGate());
  await one.start();
  await one.stop();
  expect(calls()).toEqual(["--offline some-tool@1"]);
});

test("a tool that is not in the cache is fetched once, however many servers need it", async () => {
  const uvx = fakeUvx(`sleep 0.3; touch "${folder}/cache"`);
  const gate = new DownloadGate();
  const three = [1, 2, 3].map(() => servers(uvx, gate));
  await Promise.all(three.map((one) => one.start()));
  for (const one of three) expect((await one.call("add", { a: 1, b: 2 })).text).toBe("3");
  await Promise.all(three.map((one) => one.stop()));
  expect(calls().filter((call) => !call.includes("--offline"))).toEqual(["some-tool@1"]);
});

test("a tool that can be had neither way is reported with what the runner said online", async () => {
  const uvx = fakeUvx('echo "error: no such package" >&2; exit 2');
  const one = servers(uvx, new DownloadGate());
  const error = await one.start().catch((thrown) => thrown);
  await one.stop();
  expect(error.message).toBe(
    'tool server "tool" ended before it came up (exit code 2); last line on stderr: error: no such package',
  );
});
