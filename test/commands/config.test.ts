import { expect, test } from "bun:test";
import { join } from "node:path";
import { settings } from "../../src/settings.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const program = join(import.meta.dir, "..", "..", "src", "main.ts");

async function aglConfig(folder: string, flags: string[], environment: Record<string, string> = {}) {
  const child = Bun.spawn([process.execPath, program, "config", ...flags], {
    cwd: folder,
    env: { PATH: process.env["PATH"] ?? "", ...environment },
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { code: await child.exited, out, err };
}

test("every setting is listed with its value and who said so", async () => {
  const folder = temporaryFolder();
  await Bun.write(join(folder, "agl.toml"), "iterations = 3\n[store]\nport = 1001\n");
  const { code, out } = await aglConfig(folder, ["--proxy-port", "1002"], { AGL_SEED: "7" });
  expect(code).toBe(0);
  const rows = new Map(
    out
      .trim()
      .split("\n")
      .map((line) => [line.split(/\s+/)[0] ?? "", line.split(/\s{2,}/).slice(1)]),
  );
  expect(rows.get("iterations")).toEqual(["3", "agl.toml"]);
  expect(rows.get("store.port")).toEqual(["1001", "agl.toml"]);
  expect(rows.get("proxy.port")).toEqual(["1002", "flag"]);
  expect(rows.get("seed")).toEqual(["7", "environment (AGL_SEED)"]);
  expect(rows.get("runners.count")).toEqual(["4", "default"]);
  expect(rows.get("model")).toEqual(["-", "default"]);
  const visible = Object.entries(settings).filter(([, { hidden }]) => !hidden);
  expect([...rows.keys()]).toEqual(visible.map(([name]) => name));
});

test("as JSON, values keep their types and what is unset is null", async () => {
  const { code, out } = await aglConfig(temporaryFolder(), ["--json", "--selection-shuffle-rewards"]);
  expect(code).toBe(0);
  const shown = JSON.parse(out) as { name: string }[];
  const find = (name: string) => shown.find((setting) => setting.name === name);
  expect(find("selection.fraction")).toMatchObject({ value: 0.5, source: "default" });
  expect(find("agent")).toMatchObject({ value: null, source: "default" });
  // Hidden ones are shown once somebody sets them.
  expect(find("selection.shuffle_rewards")).toMatchObject({ value: true, source: "flag" });
});

test("a slip is refused here as everywhere", async () => {
  const { code, out, err } = await aglConfig(temporaryFolder(), [], { AGL_SEDE: "7" });
  expect(code).toBe(2);
  expect(out).toBe("");
  expect(err).toContain("no setting is named AGL_SEDE; did you mean AGL_SEED?");
});
