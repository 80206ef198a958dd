import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { CheckResult } from "../../src/doctor/check.ts";
import { testedVersions } from "../../src/doctor/versions.ts";
import { freePort } from "../../src/engine/port-owner.ts";
import { executable } from "../helpers/executable.ts";
import { environmentWith } from "../helpers/python-environment.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const root = join(import.meta.dir, "..", "..");
const tested = testedVersions(readFileSync(join(root, "trainer", "requirements", "cpu.txt"), "utf8"));
const modules = ["vllm", "torch", "transformers", "datasets", "peft", "trl"];
const calculator = join(root, "test", "helpers", "fake-calculator.ts");

function machine() {
  const folder = temporaryFolder();
  const uvx = executable(folder, "uvx", `exec "${process.execPath}" "${calculator}"`);
  executable(folder, "uv", "echo uv 9.9.9");
  const environment = {
    PATH: `${folder}:/usr/bin:/bin`,
    HOME: folder,
    AGL_UVX: uvx,
    AGL_STORE_PORT: String(freePort()),
    AGL_PROXY_PORT: String(freePort()),
  };
  return { folder, environment };
}

async function doctor(folder: string, environment: Record<string, string>, flags: string[] = []) {
  const child = Bun.spawn([process.execPath, join(root, "src", "main.ts"), "doctor", ...flags], {
    cwd: folder,
    env: environment,
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { code: await child.exited, out, err };
}

async function asJson(folder: string, environment: Record<string, string>, flags: string[] = []) {
  const { code, out } = await doctor(folder, environment, ["--json", ...flags]);
  const answer = JSON.parse(out) as { ok: boolean; checks: CheckResult[] };
  const of = (check: string) => answer.checks.filter((result) => result.check === check);
  return { code, answer, of };
}

function agentWith(command: string): string {
  return `export default { name: "x", tools: { c: { command: "${command}" } }, run: () => 1 };`;
}

describe("a machine where everything is here", () => {
  test("has no problem: exit code 0, a line for each check", async () => {
    const { folder, environment } = machine();
    const python = environmentWith(tested, modules);
    const { code, out, err } = await doctor(folder, { ...environment, AGL_PYTHON: python });
    expect(err).toBe("");
    const lines = out.trim().split("\n");
    const checks = lines
      .slice(0, -1)
      .map((line) => line.split(/\s+/)[1])
      .filter((name) => name !== "->");
    expect([...new Set(checks)]).toEqual([
      "gpu",
      "memory",
      "uv",
      "python",
      "versions",
      "model",
      "ports",
      "disk",
      "calculator",
      "offline",
    ]);
    expect(out).toContain("everything is here: runs need no network");
    expect(lines.at(-1)).toMatch(/^\d+ ok, \d+ warnings, 0 problems$/);
    expect(code).toBe(0);
  });
});

describe("a problem ends with exit code 1 and a remedy", () => {
  test("a known-bad version in the named environment", async () => {
    const { folder, environment } = machine();
    const python = environmentWith({ ...tested, unsloth: "2025.10.2" }, modules);
    const { code, answer, of } = await asJson(folder, { ...environment, AGL_PYTHON: python });
    expect(code).toBe(1);
    expect(answer.ok).toBe(false);
    expect(of("python")[0]?.status).toBe("ok");
    expect(of("versions")[0]).toMatchObject({ status: "problem" });
    expect(of("versions")[0]?.message).toContain("unsloth 2025.10.2 is known to be bad");
  });

  test("a named Python that does not exist is told once", async () => {
    const { folder, environment } = machine();
    const { code, of } = await asJson(folder, { ...environment, AGL_PYTHON: join(folder, "nothing") });
    expect(code).toBe(1);
    expect(of("python")[0]?.message).toContain("does not exist");
    expect(of("versions")).toEqual([]);
    expect(of("offline")[0]?.message).toContain("the Python environment");
  });

  test("one that lacks modules still says its versions", async () => {
    const { folder, environment } = machine();
    const python = environmentWith({ ...tested, trl: "0.1.0" }, ["torch"]);
    const { of } = await asJson(folder, { ...environment, AGL_PYTHON: python });
    expect(of("python")[0]?.message).toContain("lacks vllm, transformers");
    expect(of("versions")[0]?.message).toContain("trl 0.1.0 (tested ");
  });

  test("a port that is taken", async () => {
    const { folder, environment } = machine();
    const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response() });
    try {
      const { code, of } = await asJson(folder, environment, ["--store-port", String(server.port)]);
      expect(code).toBe(1);
      expect(of("ports")[0]?.message).toContain(`is taken by pid ${process.pid}`);
    } finally {
      void server.stop(true);
    }
  });

  test("a model that does not exist, beside everything else", async () => {
    const { folder, environment } = machine();
    const { code, of } = await asJson(folder, environment, ["--model", "./none"]);
    expect(code).toBe(1);
    expect(of("model")[0]?.message).toBe("model: ./none does not exist");
    expect(of("calculator")[0]?.status).toBe("ok");
  });

  test("an agent file that does not load, instead of the calculator", async () => {
    const { folder, environment } = machine();
    const agent = join(folder, "agent.ts");
    await Bun.write(agent, "export default {");
    const { code, of } = await asJson(folder, environment, ["--agent", agent]);
    expect(code).toBe(1);
    expect(of("agent")[0]).toMatchObject({ status: "problem" });
    expect(of("calculator")).toEqual([]);
  });

  test("a tool server of an agent file whose command is not on PATH", async () => {
    const { folder, environment } = machine();
    await Bun.write(join(folder, "agent.ts"), agentWith("no-such-command"));
    const { of } = await asJson(folder, environment, ["--agent", "agent.ts"]);
    expect(of("agent")[0]?.message).toBe("its tool server c: the command no-such-command was not found");
  });
});

test("an agent file that loads is named with its tool servers", async () => {
  const { folder, environment } = machine();
  await Bun.write(join(folder, "agent.ts"), agentWith("uvx"));
  const { of } = await asJson(folder, environment, ["--agent", "agent.ts"]);
  expect(of("agent")).toMatchObject([{ status: "ok", message: "agent.ts loads; its tool servers: c" }]);
});

test("what is only missing so far is a warning", async () => {
  const { folder, environment } = machine();
  const { of } = await asJson(folder, environment, ["--model", "acme/tiny"]);
  expect(of("versions")[0]).toMatchObject({ status: "warning" });
  expect(of("versions")[0]?.remedy).toContain("agl setup");
  expect(of("model")[0]).toMatchObject({ status: "warning", message: "acme/tiny is not fetched yet" });
});
