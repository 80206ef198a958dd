import { describe, expect, test } from "bun:test";
import { cpSync, existsSync, mkdirSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "../../src/engine/port-owner.ts";
import { fakePython } from "../helpers/fake-engine.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";
import { startAgl } from "../real/agl-process.ts";

/** `agl allinone` with input that it must refuse before anything is started or written. */
const root = join(import.meta.dir, "..", "..");
const folder = temporaryFolder();
const program = [process.execPath, join(root, "src", "main.ts")];
const python = await fakePython(folder, "python", {});
let number = 0;

function place(files: Record<string, string> = {}): string {
  const path = join(folder, `place-${++number}`);
  mkdirSync(path);
  for (const [name, text] of Object.entries(files)) writeFileSync(join(path, name), text);
  return path;
}

function modelWith(change: (model: string) => void): string {
  const model = join(place(), "model");
  cpSync(join(root, "data", "small-model"), model, { recursive: true });
  change(model);
  return model;
}

/** Runs it to its end; what it said on stderr must be lines for a user. */
async function refuse(args: string[], cwd = place(), environment: Record<string, string> = {}) {
  const ports = ["--store-port", String(freePort()), "--proxy-port", String(freePort())];
  const agl = startAgl(
    ["allinone", ...ports, ...args],
    cwd,
    { AGL_PYTHON: python, AGL_CACHE: join(folder, "cache"), ...environment },
    program,
  );
  const code = await agl.exited;
  expect(agl.errors()).not.toMatch(/^\s+at |internal error/m);
  expect(existsSync(join(cwd, "runs"))).toBe(false);
  expect(agl.processes()).toEqual([]);
  return { code, said: agl.errors(), printed: agl.lines };
}

describe("an agent file is refused before anything is started", () => {
  const agents: [string, string | undefined, string][] = [
    ["that does not exist", undefined, "agent.ts does not exist"],
    ["with a syntax error", "export default {{", "agent.ts:1:17: Expected identifier"],
    ["without a default export", "export const a = 1;", "has no default export"],
    ["without a run function", 'export default { name: "x" };', "has no run function"],
    ["that throws", 'throw new Error("boom at load");', "cannot be loaded: boom at load"],
    ["that needs a package that is not there", 'import x from "no-such-package"; x();', "no-such-package"],
    ["that ends its process", "process.exit(3);", "ends the process that loads it (exit code 3)"],
  ];
  test.each(agents)("%s", async (_, text, message) => {
    const cwd = place(text === undefined ? {} : { "agent.ts": text });
    const { code, said, printed } = await refuse(["--agent", "agent.ts"], cwd);
    expect(said).toContain(message);
    expect({ code, printed }).toEqual({ code: 2, printed: [] });
  });

  test("whose tool server is no program on PATH", async () => {
    const tools = '{ name: "x", tools: { c: { command: "no-such-command" } }, run: () => 1 }';
    const cwd = place({ "agent.ts": `console.log("I am loaded"); export default ${tools};` });
    const { code, said } = await refuse(["--agent", "agent.ts"], cwd);
    expect(said).toStartWith("error: tool server c: its command no-such-command was not found\n");
    expect(code).toBe(1);
  });
});

describe("a model is refused before anything is started", () => {
  const models: [string, (model: string) => void, string][] = [
    ["without weights", (m) => rmSync(join(m, "model.safetensors")), "holds no weights"],
    ["cut off", (m) => truncateSync(join(m, "model.safetensors"), 1_000_000), "1000000 bytes instead of"],
    ["without a tokenizer", (m) => rmSync(join(m, "tokenizer.json")), "holds no tokenizer"],
    [
      "with half a config.json",
      (m) => writeFileSync(join(m, "config.json"), "{"),
      "config.json cannot be read",
    ],
    [
      "without a chat template",
      (m) => {
        rmSync(join(m, "chat_template.jinja"));
        writeFileSync(join(m, "tokenizer_config.json"), "{}");
      },
      "holds no chat template",
    ],
    [
      "with a slip in its settings",
      (m) => writeFileSync(join(m, "agl-model.json"), '{"training": {"learning_rat": 1}}'),
      "there is no field training.learning_rat; did you mean learning_rate?",
    ],
    ["that is not there", (m) => rmSync(m, { recursive: true }), "does not exist"],
  ];
  test.each(models)("%s", async (_, change, message) => {
    const { code, said } = await refuse(["--model", modelWith(change)]);
    expect(said).toContain(message);
    expect(code).toBe(2);
  });
});

describe("a Python that was named is refused before anything is started", () => {
  test("when it does not exist", async () => {
    const { code, said } = await refuse(["--python", "no/python"]);
    expect(said).toStartWith("error: python: no/python does not exist\n");
    expect(code).toBe(2);
  });

  test("when it lacks what serving and training import", async () => {
    const bare = join(place(), "python");
    writeFileSync(bare, "#!/bin/sh\necho missing: vllm trl\n", { mode: 0o755 });
    const { code, said } = await refuse(["--python", bare]);
    expect(said).toContain("lacks vllm, trl");
    expect(code).toBe(2);
  });

  test("when it does not run", async () => {
    const { code, said } = await refuse(["--python", "/bin/false"]);
    expect(said).toContain("/bin/false does not work: exit code 1");
    expect(code).toBe(2);
  });
});

describe("ports are checked before anything is started", () => {
  test("one that is taken is named with who holds it", async () => {
    using holder = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response() });
    const { code, said } = await refuse(["--proxy-port", String(holder.port)]);
    expect(said).toContain(`proxy.port: port ${holder.port} is taken by pid ${process.pid} (`);
    expect(said).toContain("--proxy-port");
    expect(code).toBe(1);
  });

  test("one that is named twice is refused", async () => {
    const port = String(freePort());
    const { code, said } = await refuse(["--store-port", port, "--proxy-port", port]);
    expect(said).toContain(`store.port and proxy.port are both ${port}`);
    expect(code).toBe(2);
  });
});

test("a uvx that is not there, and none on PATH, are said before anything is started", async () => {
  const missing = await refuse(["--uvx", "no/uvx"]);
  expect(missing.said).toMatch(/^error: tool server calculator: its command .*no\/uvx was not found\n/);
  const none = await refuse([], place(), { PATH: place() });
  expect(none.said).toContain("AGL_UVX");
  expect([missing.code, none.code]).toEqual([1, 1]);
});

test("names that every object has are no settings", async () => {
  const cwd = place({ "agl.toml": 'toString = 3\nconstructor = 1\n"__proto__" = 2\n' });
  const { code, said } = await refuse([], cwd);
  expect(said).toStartWith("error: agl.toml: no setting is named toString");
  expect(said).toContain("no setting is named __proto__");
  expect(code).toBe(2);
});

test("a task without a field is refused with the field and that it is missing", async () => {
  const cwd = place({ "tasks.jsonl": '{"input": "1+1"}\n' });
  const { code, said } = await refuse(["--tasks-train", "tasks.jsonl"], cwd);
  expect(said).toStartWith("error: tasks.jsonl, line 1: field target: is missing\n");
  expect(code).toBe(2);
});

test("an agent's own tasks are not mixed with the small model's", async () => {
  const cwd = place({
    "agent.ts": 'export default { name: "x", run: () => 1 };',
    "tasks.jsonl": '{"input": 1}\n',
  });
  const { code, said } = await refuse(["--agent", "agent.ts", "--tasks-train", "tasks.jsonl"], cwd);
  expect(said).toStartWith("error: tasks.validation is unset, ");
  expect(said).toContain("--tasks-validation");
  expect(code).toBe(2);
});
