import { describe, expect, test } from "bun:test";
import { chmodSync, copyFileSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  ensureEnvironment,
  type EnvironmentOptions,
  findEnvironment,
} from "../../src/engine/python-environment.ts";
import { findUv } from "../../src/engine/uv.ts";
import { AglError } from "../../src/errors.ts";
import { silentLogger } from "../../src/log.ts";
import { until } from "../helpers/processes.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";
import { wheelFolder } from "../helpers/wheel.ts";

const uv = findUv();
const quick = "value = 1\n";
const slow = "import time, pathlib\npathlib.Path('importing').touch()\ntime.sleep(600)\n";

function optionsFor(source: string, changes: Partial<EnvironmentOptions> = {}) {
  const folder = temporaryFolder();
  const { links, requirements } = wheelFolder(folder, "tiny_package", source);
  const lines: string[] = [];
  const options: EnvironmentOptions = {
    profile: "cpu",
    requirementsFolder: requirements,
    cacheFolder: join(folder, "cache"),
    uv,
    log: silentLogger,
    onProgress: (line) => lines.push(line),
    signal: new AbortController().signal,
    findLinks: links,
    offline: true,
    neededBytes: 1,
    imports: [["tiny_package"], ["json"]],
    ...changes,
  };
  return { options, lines, folder, environments: join(folder, "cache", "environments") };
}

async function failureOf(promise: Promise<unknown>): Promise<AglError> {
  const error = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(AglError);
  return error as AglError;
}

const unfinished = (environments: string) =>
  existsSync(environments) ? readdirSync(environments).filter((name) => name.includes(".making-")) : [];

function commandLines(): string[] {
  return Bun.spawnSync(["ps", "-eo", "args"]).stdout.toString().split("\n");
}

describe("an environment", () => {
  test("is made once, holds the pinned set, and is found again without uv", async () => {
    const { options, lines, environments } = optionsFor(quick);
    const made = await ensureEnvironment(options);
    expect(made.created).toBe(true);
    const asked = Bun.spawnSync([made.python, "-c", "import tiny_package as t; print(t.value, t.__file__)"]);
    expect(asked.stdout.toString()).toContain(`1 ${made.folder}`);
    expect(unfinished(environments)).toEqual([]);
    expect(lines.at(-1)).toContain("environment ready");

    const again = await ensureEnvironment({ ...options, uv: undefined });
    expect(again).toEqual({ ...made, created: false });
  });

  test("of other packages is another one", async () => {
    const { options } = optionsFor(quick);
    const first = await ensureEnvironment(options);
    const requirements = join(options.requirementsFolder, "cpu.txt");
    writeFileSync(requirements, (await Bun.file(requirements).text()) + "# changed\n");
    const second = await ensureEnvironment(options);
    expect(second.created).toBe(true);
    expect(second.folder).not.toBe(first.folder);
  });

  test("of another profile lies beside it, from its own pinned set", async () => {
    const { options, environments } = optionsFor(quick);
    const pinned = join(options.requirementsFolder, "cpu.txt");
    copyFileSync(pinned, join(options.requirementsFolder, "cuda.txt"));
    rmSync(pinned);
    const made = await ensureEnvironment({ ...options, profile: "cuda" });
    expect(made.folder).toStartWith(join(environments, "cuda-"));
    expect(findEnvironment({ ...options, profile: "cuda" })?.folder).toBe(made.folder);
  });

  test("is made again when its Python is gone", async () => {
    const { options } = optionsFor(quick);
    const { python } = await ensureEnvironment(options);
    rmSync(python);
    expect((await ensureEnvironment(options)).created).toBe(true);
    expect(existsSync(python)).toBe(true);
  });

  test("started several times at once is made by one; the others wait and say so", async () => {
    const { options, lines } = optionsFor(quick);
    const made = await Promise.all([1, 2, 3].map(() => ensureEnvironment(options)));
    expect(made.map(({ created }) => created).toSorted()).toEqual([false, false, true]);
    expect(new Set(made.map(({ folder }) => folder)).size).toBe(1);
    const waiting = `waiting for another agl (pid ${process.pid}) that is making the environment`;
    expect(lines.filter((line) => line.includes("waiting"))).toEqual([
      `python: ${waiting}`,
      `python: ${waiting}`,
    ]);
  });

  test("whose maker was killed leaves no process and is made by the next, who removes the rest", async () => {
    const { options, folder, environments } = optionsFor(slow);
    const { signal: _, onProgress: __, log: ___, ...plain } = options;
    const helper = join(import.meta.dir, "..", "helpers", "make-environment.ts");
    const maker = Bun.spawn([process.execPath, helper, JSON.stringify(plain)], { stdout: "ignore" });
    await until("it imports", () => existsSync(join(environments, "importing")), 30_000);
    expect(unfinished(environments)).toHaveLength(1);
    maker.kill("SIGKILL");
    await until("nothing runs there", () => !commandLines().some((line) => line.includes(folder)));
    expect((await ensureEnvironment({ ...options, imports: [["json"]] })).created).toBe(true);
    expect(unfinished(environments)).toEqual([]);
  });

  test("whose making is aborted throws the reason and leaves nothing", async () => {
    const controller = new AbortController();
    const { options, folder, environments } = optionsFor(slow, { signal: controller.signal });
    const making = failureOf(ensureEnvironment(options));
    await until("it imports", () => existsSync(join(environments, "importing")), 30_000);
    const reason = new AglError("cancelled", "stopped by SIGINT", { exitCode: 130 });
    controller.abort(reason);
    expect(await making).toBe(reason);
    expect(unfinished(environments)).toEqual([]);
    expect(commandLines().filter((line) => line.includes(folder))).toEqual([]);
  });

  test("that is waited for can be given up", async () => {
    const controller = new AbortController();
    const { options, environments } = optionsFor(slow);
    const first = new AbortController();
    const making = failureOf(ensureEnvironment({ ...options, signal: first.signal }));
    await until("it imports", () => existsSync(join(environments, "importing")), 30_000);
    const waiting = failureOf(ensureEnvironment({ ...options, signal: controller.signal }));
    const reason = new AglError("cancelled", "stopped by SIGTERM");
    controller.abort(reason);
    expect(await waiting).toBe(reason);
    first.abort(reason);
    await making;
  });
});

describe("an environment that cannot be made says why and what to do", () => {
  test("no uv", async () => {
    const error = await failureOf(ensureEnvironment(optionsFor(quick, { uv: undefined }).options));
    expect(error.boundary).toBe("environment");
    expect(error.message).toContain("uv, which makes the Python environment, was not found on PATH");
    expect(error.remedy).toContain("AGL_UV");
  });

  test("no network and nothing cached", async () => {
    const { options, folder, environments } = optionsFor(quick);
    mkdirSync(join(folder, "empty"));
    const error = await failureOf(ensureEnvironment({ ...options, findLinks: join(folder, "empty") }));
    expect(error.message).toContain("is not made yet and its packages cannot be fetched");
    expect(error.remedy).toContain("connect to the network");
    expect(unfinished(environments)).toEqual([]);
  });

  test("a package that is not the pinned one", async () => {
    const { options, environments } = optionsFor(quick);
    writeFileSync(
      join(options.requirementsFolder, "cpu.txt"),
      `tiny_package==1.0 --hash=sha256:${"0".repeat(64)}\n`,
    );
    const error = await failureOf(ensureEnvironment(options));
    expect(error.message).toContain("could not be installed");
    expect(unfinished(environments)).toEqual([]);
  });

  test("too small a disk", async () => {
    const error = await failureOf(ensureEnvironment(optionsFor(quick, { neededBytes: 1e18 }).options));
    expect(error.message).toMatch(/takes 1000000000\.0 GB, and .* has \d+\.\d GB free/);
    expect(error.remedy).toContain("--cache");
  });

  test("something that does not import", async () => {
    const { options, environments } = optionsFor(quick, { imports: [["tiny_package"], ["not_there"]] });
    const error = await failureOf(ensureEnvironment(options));
    expect(error.message).toBe(
      "the Python environment was installed but does not work: ModuleNotFoundError: No module named 'not_there'",
    );
    expect(unfinished(environments)).toEqual([]);
  });

  test("no pinned set for the profile", async () => {
    const error = await failureOf(ensureEnvironment(optionsFor(quick, { profile: "cuda" }).options));
    expect(error.message).toContain("profile cuda: there is no pinned set");
    expect(error.remedy).toContain("AGL_PYTHON");
  });

  test("no Python that is new enough", async () => {
    const { options, folder } = optionsFor(quick);
    const old = join(folder, "uv");
    writeFileSync(old, '#!/bin/sh\ncase "$*" in *3.1*) exit 1;; *) echo /usr/bin/python3.9;; esac\n');
    chmodSync(old, 0o755);
    const error = await failureOf(ensureEnvironment({ ...options, uv: old }));
    expect(error.message).toBe("Python 3.11, 3.12 or 3.13 is needed and only /usr/bin/python3.9 was found");
    expect(error.remedy).toContain("uv python install 3.11");
  });

  test("a cache folder that is a file", async () => {
    const { options, folder } = optionsFor(quick);
    writeFileSync(join(folder, "file"), "");
    const error = await failureOf(ensureEnvironment({ ...options, cacheFolder: join(folder, "file") }));
    expect(error.message).toContain("the folder of Python environments cannot be made");
    expect(error.remedy).toContain("--cache");
  });
});
