import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { checkDisk, installFailure } from "../../src/engine/environment-failure.ts";
import { findUv, packageSource, torchSource } from "../../src/engine/uv.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const folder = temporaryFolder();
const withTorch = join(folder, "with torch");
const withoutTorch = join(folder, "without");
mkdirSync(withTorch);
mkdirSync(withoutTorch);
writeFileSync(join(withTorch, "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"), "");

describe("torch's CPU build comes", () => {
  const source = (environment: Record<string, string>, findLinks?: string) =>
    torchSource("2.13.0+cpu", findLinks, environment);

  test("from a find-links folder that holds it", () => {
    expect(source({ UV_FIND_LINKS: withTorch })).toEqual({ env: { UV_FIND_LINKS: withTorch }, flags: [] });
    expect(source({ PIP_FIND_LINKS: ` ${withoutTorch} ${withoutTorch} ` }, withTorch).flags).toEqual([]);
  });

  test("from pip's find-links, whose blanks are uv's commas", () => {
    const links = join(folder, "links");
    mkdirSync(links);
    writeFileSync(join(links, "torch-2.13.0+cpu-cp312-cp312-manylinux_2_28_x86_64.whl"), "");
    expect(source({ PIP_FIND_LINKS: `${withoutTorch} ${links}` })).toEqual({
      env: { UV_FIND_LINKS: `${withoutTorch},${links}` },
      flags: [],
    });
  });

  test("from PyTorch's index when no folder holds it", () => {
    expect(source({})).toEqual({ env: {}, flags: ["--torch-backend", "cpu"] });
    expect(source({ UV_FIND_LINKS: withoutTorch }).flags).toEqual(["--torch-backend", "cpu"]);
    expect(source({ UV_FIND_LINKS: join(folder, "none") }).flags).toEqual(["--torch-backend", "cpu"]);
  });

  test("from a page of links when one is named", () => {
    expect(source({ UV_FIND_LINKS: "https://example.org/wheels" }).flags).toEqual([]);
  });

  test("from nowhere when it is not asked for", () => {
    expect(torchSource(undefined, undefined, {})).toEqual({ env: {}, flags: [] });
  });
});

test("the CUDA build of torch is the index's own, whatever pip's find-links hold", () => {
  const requirements = "torch==2.13.0 \\\n    --hash=sha256:00\n";
  const links = join(folder, "builds");
  mkdirSync(links);
  writeFileSync(join(links, "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"), "");
  const environment = { PIP_FIND_LINKS: links };
  expect(packageSource("cuda", requirements, undefined, environment)).toEqual({ env: {}, flags: [] });
  expect(packageSource("cuda", requirements, withoutTorch, environment).env).toEqual({
    UV_FIND_LINKS: withoutTorch,
  });
  expect(packageSource("cpu", requirements, undefined, environment).env).toEqual({
    UV_FIND_LINKS: links,
  });
});

describe("uv is found", () => {
  const program = join(folder, "uv");
  writeFileSync(program, "#!/bin/sh\n", { mode: 0o755 });

  test("where it was named, else on PATH", () => {
    expect(findUv({ path: program })).toBe(program);
    expect(findUv({ env: { PATH: `${withTorch}:${folder}` } })).toBe(program);
  });

  test("or not, when PATH has none or what was named is no program", () => {
    expect(findUv({ env: { PATH: withTorch } })).toBeUndefined();
    expect(findUv({ env: {} })).toBeUndefined();
    expect(() => findUv({ path: withTorch })).toThrow("is no program");
    expect(() => findUv({ path: join(folder, "none") })).toThrow("is no program");
  });
});

describe("a failed installation is told apart", () => {
  const failed = (stderr: string[]) =>
    installFailure(
      { exit: { code: 2, signal: null, stopped: false, durationMs: 1 }, stdout: [], stderr },
      folder,
    );

  test("no network", () => {
    const error = failed([
      "error: Request failed after 3 retries in 10.6s",
      "  cause: Failed to fetch: https://example.org/simple/six/",
      "  cause: client error (Connect)",
      "  cause: dns error",
    ]);
    expect(error.message).toBe(
      "the Python environment is not made yet and its packages cannot be fetched: Failed to fetch: https://example.org/simple/six/",
    );
    expect(error.remedy).toContain("connect to the network");
  });

  test("a full disk", () => {
    const error = failed([
      "error: Failed to install: torch",
      "  cause: No space left on device (os error 28)",
    ]);
    expect(error.message).toContain("the disk filled up");
    expect(error.remedy).toContain("--cache");
  });

  test("anything else, in its own words", () => {
    expect(failed(["Using Python 3.11", "error: Hash mismatch for `six`"]).message).toBe(
      "the Python packages could not be installed: error: Hash mismatch for `six`",
    );
  });
});

test("a disk that is large enough is no error", () => {
  expect(() => checkDisk(folder, 1)).not.toThrow();
});
