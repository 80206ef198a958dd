import { expect, test } from "bun:test";
import { freePort } from "../../src/engine/port-owner.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";
import { runAgl } from "../helpers/run-agl.ts";

const ignored: [string, string[]][] = [
  ["allinone", ["--store-db", "mine.db"]],
  ["allinone", ["--tasks-dev", "3"]],
  ["algo", ["--store-port", "4000"]],
  ["algo", ["--runners-count", "8"]],
  ["dev", ["--tasks-train-limit", "3"]],
];
test.each(ignored)("agl %s refuses a flag that it would not read: %j", async (command, flag) => {
  const { code, out, err } = await runAgl([command, ...flag], temporaryFolder());
  expect({ code, out }).toEqual({ code: 2, out: "" });
  expect(err).toContain(`unknown option '${flag[0]}'`);
});

test("agl proxy takes every flag of what its recorder and its calls wait for", async () => {
  const folder = temporaryFolder();
  const flags = [
    ["--proxy-hold-seconds", "0"],
    ["--proxy-spool-dir", "waiting"],
    ["--proxy-spool-max-mb", "1"],
    ["--proxy-when-full", "drop"],
  ].flat();
  const { code, err } = await runAgl(["proxy", ...flags], folder);
  expect(code).toBe(2);
  expect(err).toStartWith("error: no model to forward to\n");
});

test("a model server's address without /v1 is refused under the flag's name", async () => {
  const flags = ["--engine-url", "http://127.0.0.1:8000"];
  const { code, err } = await runAgl(["proxy", ...flags], temporaryFolder());
  expect(code).toBe(2);
  expect(err).toStartWith(
    'error: --engine-url: expected an address that ends in /v1, such as http://127.0.0.1:8000/v1, not "http://127.0.0.1:8000"\n',
  );
});

test("a password in a model server's address is not shown when it does not answer", async () => {
  const flags = ["--engine-url", "http://me:pass@127.0.0.1:1/v1", "--proxy-port", String(freePort())];
  const { code, err } = await runAgl(["proxy", ...flags], temporaryFolder());
  expect(code).toBe(1);
  expect(err).toStartWith("error: engine.url: http://********@127.0.0.1:1/v1 does not list its models");
});

test("agl config takes the flags of all commands", async () => {
  const flags = ignored.flatMap(([, flag]) => flag);
  const { code, out } = await runAgl(["config", ...flags], temporaryFolder());
  expect(code).toBe(0);
  expect(out).toMatch(/^store\.db +mine\.db +flag$/m);
});

test.each(["help stroe", "stroe --help", "stroe"])("agl %s names the nearest command", async (line) => {
  const { code, out, err } = await runAgl(line.split(" "), temporaryFolder());
  expect({ code, out }).toEqual({ code: 2, out: "" });
  expect(err).toStartWith("error: unknown command 'stroe'\n(Did you mean store?)\n");
});

test("agl help takes the name of a command below another", async () => {
  const asked = await runAgl(["help", "store", "prune"], temporaryFolder());
  expect(asked.out).toStartWith("Usage: agl store prune [options]\n");
  expect(asked).toEqual(await runAgl(["store", "prune", "--help"], temporaryFolder()));
});
