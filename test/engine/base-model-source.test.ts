import { describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import {
  type BaseModelOptions,
  findBaseModel,
  resolveBaseModel,
} from "../../src/engine/base-model-source.ts";
import { fetchFailure } from "../../src/engine/fetch-failure.ts";
import { folderOf, parseHubName } from "../../src/engine/hub-name.ts";
import { AglError, UsageError } from "../../src/errors.ts";
import { silentLogger } from "../../src/log.ts";
import { processesWith } from "../helpers/processes.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

function optionsFor(behaviour: string, changes: Partial<BaseModelOptions> = {}) {
  const lines: string[] = [];
  const options: BaseModelOptions = {
    model: "acme/tiny",
    cacheFolder: temporaryFolder(),
    python: process.execPath,
    script: join(import.meta.dir, "..", "helpers", "fake-fetcher.ts"),
    env: { HF_FAKE_FETCH: behaviour, HF_TOKEN: "" },
    signal: new AbortController().signal,
    onProgress: (line) => lines.push(line),
    log: silentLogger,
    ...changes,
  };
  return { options, lines, final: join(options.cacheFolder, "models", "acme", "main", "tiny") };
}

async function refusal(options: BaseModelOptions): Promise<AglError> {
  const error = await resolveBaseModel(options).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(AglError);
  return error as AglError;
}

describe("a name of a model", () => {
  test("of the hub is owner/name, with a revision or without", () => {
    expect(parseHubName("unsloth/Qwen3-4B-Instruct-2507")).toEqual({
      name: "unsloth/Qwen3-4B-Instruct-2507",
      revision: "main",
    });
    expect(parseHubName("a/b@refs/pr/1")).toEqual({ name: "a/b", revision: "refs/pr/1" });
  });

  test.each([
    "./a/b",
    "/a/b",
    "~/a",
    "a/b/c",
    "a",
    "a/",
    "/b",
    "a/..",
    "../b",
    "a b/c",
    "a/b@",
    "a/b.git",
    "",
  ])("%p is none of the hub", (text) => {
    expect(parseHubName(text)).toBeUndefined();
  });

  test("never leads out of the folder of models, and two names never to the same one", () => {
    const part = fc.stringMatching(/^[\w.@/-]{1,12}$/);
    fc.assert(
      fc.property(part, part, (left, right) => {
        const [one, other] = [parseHubName(left), parseHubName(right)];
        if (one === undefined) return;
        expect(folderOf(one).split("/")).toHaveLength(3);
        expect(folderOf(one).split("/")).not.toContain("..");
        if (other === undefined || Bun.deepEquals(one, other)) return;
        expect(folderOf(one)).not.toBe(folderOf(other));
      }),
      { numRuns: 2_000, examples: [["a/b@..", "a/b"]] },
    );
  });
});

describe("a folder", () => {
  test("is used as it is, also when the hub has a model of that name", async () => {
    const { options } = optionsFor("dies");
    const folder = temporaryFolder();
    mkdirSync(join(folder, "acme", "tiny"), { recursive: true });
    expect(await resolveBaseModel({ ...options, model: join(folder, "acme", "tiny") })).toEqual({
      path: join(folder, "acme", "tiny"),
      fetched: false,
    });
  });

  test("that does not exist is refused with the nearest one beside it", () => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, "qwen-small"));
    const find = () => findBaseModel(join(folder, "qwen-smal"), folder);
    expect(find).toThrow(UsageError);
    expect(find).toThrow(`model: ${join(folder, "qwen-smal")} does not exist`);
    try {
      find();
    } catch (error) {
      expect((error as UsageError).remedy).toBe(`did you mean ${join(folder, "qwen-small")}?`);
    }
  });
});

describe("a fetch", () => {
  test("makes a folder that is found again without a network", async () => {
    const { options, lines, final } = optionsFor("whole");
    expect(findBaseModel("acme/tiny", options.cacheFolder)).toBeUndefined();
    expect(await resolveBaseModel(options)).toEqual({ path: final, fetched: true });
    expect(readdirSync(final).sort()).toEqual(["STABLE", "config.json", "model.safetensors"]);
    expect(findBaseModel("acme/tiny", options.cacheFolder)).toBe(final);
    expect(lines[0]).toBe("model: fetching acme/tiny (once)");
    expect(lines).toContain("model: 0.0 MB of 0.0 MB (100 %)");
  });

  test("of more than the disk holds ends before the download", async () => {
    const { options, final } = optionsFor("huge");
    const { message, remedy } = await refusal(options);
    expect(message).toMatch(/^model acme\/tiny: its weights take 1000000000.0 GB, and .* GB free$/);
    expect(remedy).toContain("--cache");
    expect(processesWith(`${final}.fetching`)).toEqual([]);
  });

  test("that brings nothing new for too long is given up", async () => {
    const { options, final } = optionsFor("stalls", { stallLimitMs: 300 });
    expect((await refusal(options)).message).toBe("model acme/tiny: nothing of it arrived for 0.3 s");
    expect(processesWith(`${final}.fetching`)).toEqual([]);
  });

  test("whose program dies says of what", async () => {
    const { options, final } = optionsFor("dies");
    expect((await refusal(options)).message).toContain("No module named 'huggingface_hub'");
    expect(existsSync(final)).toBe(false);
  });

  test("is no success when the program ends badly after its result", async () => {
    const { options, final } = optionsFor("fails-late");
    expect((await refusal(options)).message).toContain("exit code 3");
    expect(existsSync(final)).toBe(false);
  });
});

test("every failure that the fetching program names has a remedy of its own", () => {
  const hub = { name: "acme/tiny", revision: "main" };
  const reasons = ["gated", "token", "unknown", "revision", "network", "disk", "server", "other"];
  const failures = reasons.map((reason) =>
    fetchFailure(
      { kind: "error", reason, message: "why", page: "http://hub/acme/tiny", candidates: ["main-2"] },
      hub,
      false,
    ),
  );
  expect(failures.every(({ message }) => message.startsWith("model acme/tiny: "))).toBe(true);
  expect(new Set(failures.map(({ remedy }) => remedy)).size).toBe(reasons.length);
  expect(failures[2]?.remedy).toBe("check the name at http://hub/acme/tiny; for a private one set HF_TOKEN");
});
