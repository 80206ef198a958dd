import { afterEach, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type BaseModelOptions, resolveBaseModel } from "../../src/engine/base-model-source.ts";
import { AglError } from "../../src/errors.ts";
import { silentLogger } from "../../src/log.ts";
import { type FakeHub, type FakeModel, startFakeHub } from "../helpers/fake-hub.ts";
import { isAlive, processesWith, until } from "../helpers/processes.ts";
import { safetensors } from "../helpers/safetensors.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

/** The environment's own huggingface_hub against a hub on this machine; AGL_PYTHON names that environment. */
const python = process.env["AGL_PYTHON"];
if (python === undefined)
  throw new Error("set AGL_PYTHON to the Python of an environment with huggingface_hub");

const root = join(import.meta.dir, "..", "..");
const megabyte = 2 ** 20;
const noise = Array.from({ length: 6 * megabyte }, (_, index) => (index * 2_654_435_761) >>> 24);
const weights = Buffer.from(safetensors({ w: { dtype: "U8", shape: [noise.length], bytes: noise } }));
const files = {
  "config.json": "{}",
  "tokenizer.json": "{}",
  "chat_template.jinja": "{{ messages }}",
  "model.safetensors": weights,
};
const hubs: FakeHub[] = [];

afterEach(async () => {
  await Promise.all(hubs.splice(0).map((hub) => hub.stop()));
});

function hubWith(model: Partial<FakeModel> = {}): FakeHub {
  const hub = startFakeHub({ "acme/Tiny-Chat": { files, ...model } });
  hubs.push(hub);
  return hub;
}

function optionsFor(hub: FakeHub, changes: Partial<BaseModelOptions> = {}) {
  const folder = temporaryFolder();
  const lines: string[] = [];
  const { env, ...others } = changes;
  const options: BaseModelOptions = {
    model: "acme/Tiny-Chat",
    cacheFolder: join(folder, "cache"),
    python: python as string,
    script: join(root, "trainer", "fetch_model.py"),
    env: { HF_ENDPOINT: hub.url, HF_HOME: join(folder, "hf"), HF_TOKEN: "", ...env },
    signal: new AbortController().signal,
    onProgress: (line) => lines.push(line),
    log: silentLogger,
    ...others,
  };
  const final = join(options.cacheFolder, "models", "acme", "main", "Tiny-Chat");
  return { options, lines, folder, final, partials: join(`${final}.fetching`, ".partial") };
}

async function refusal(options: BaseModelOptions): Promise<AglError> {
  const error = await resolveBaseModel(options).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(AglError);
  return error as AglError;
}

const downloads = (hub: FakeHub) => hub.requests.filter((line) => line.includes("/resolve/"));

describe("a model of the hub", () => {
  test("is fetched once, with only what serving and training take", async () => {
    const more = {
      "pytorch_model.bin": "x",
      "model.fp16.safetensors": "x",
      "original/consolidated.safetensors": "x",
      "onnx/model.onnx": "x",
      "README.md": "x",
    };
    const hub = hubWith({ files: { ...files, ...more } });
    const { options, lines, final } = optionsFor(hub);
    expect(await resolveBaseModel(options)).toEqual({ path: final, fetched: true });
    expect(readdirSync(final).sort()).toEqual([...Object.keys(files), "STABLE", "agl-source.json"].sort());
    expect(weights.equals(readFileSync(join(final, "model.safetensors")))).toBe(true);
    expect(JSON.parse(readFileSync(join(final, "agl-source.json"), "utf8"))).toEqual({
      base_model: "acme/Tiny-Chat",
      revision: "main",
      commit: hub.commit,
    });
    expect(lines.at(-2)).toContain("(100 %)");
    const asked = hub.requests.length;
    expect(await resolveBaseModel(options)).toEqual({ path: final, fetched: false });
    expect(hub.requests).toHaveLength(asked);
  });

  test("is taken up again within a file after a kill -9, and the fetching program died with its parent", async () => {
    const hub = hubWith();
    hub.pieceMs = 10;
    const { options, final, partials } = optionsFor(hub);
    const killed = Bun.spawn(
      [
        process.execPath,
        join(root, "test", "helpers", "resolve-base-model.ts"),
        JSON.stringify({ ...options, log: undefined, signal: undefined, onProgress: undefined }),
      ],
      { stdout: "ignore", stderr: "inherit" },
    );
    await until("two megabytes are here", () => largest(partials) >= 2 * megabyte);
    const fetchers = processesWith(`${final}.fetching`);
    killed.kill("SIGKILL");
    await killed.exited;
    await until("the fetching program ended", () => !fetchers.some(isAlive));
    const kept = largest(partials);
    hub.requests.length = 0;
    hub.pieceMs = 0;
    expect(await resolveBaseModel(options)).toEqual({ path: final, fetched: true });
    expect(weights.equals(readFileSync(join(final, "model.safetensors")))).toBe(true);
    expect(downloads(hub)).toEqual([
      `GET /acme/Tiny-Chat/resolve/${hub.commit}/model.safetensors bytes=${kept}-`,
    ]);
  });

  test("is right although the rest of a file came from a server that ignores ranges, or was damaged", async () => {
    const hub = hubWith();
    hub.ignoresRanges = true;
    const { options, final, partials } = optionsFor(hub);
    mkdirSync(partials, { recursive: true });
    writeFileSync(join(dirname(partials), "agl-source.json"), JSON.stringify({ commit: hub.commit }));
    const name = new Bun.CryptoHasher("sha256").update(weights).digest("hex").slice(0, 16);
    writeFileSync(join(partials, `model.safetensors.${name}`), new Uint8Array(megabyte));
    await resolveBaseModel(options);
    expect(weights.equals(readFileSync(join(final, "model.safetensors")))).toBe(true);
  });

  test("that moved on meanwhile is fetched anew, never mixed from two commits", async () => {
    const hub = hubWith();
    const { options, final, partials } = optionsFor(hub);
    mkdirSync(partials, { recursive: true });
    writeFileSync(join(dirname(partials), "agl-source.json"), JSON.stringify({ commit: "d".repeat(40) }));
    writeFileSync(join(dirname(partials), "config.json"), "[]");
    await resolveBaseModel(options);
    expect(readFileSync(join(final, "config.json"), "utf8")).toBe("{}");
  });

  test("whose fetched files were damaged is repaired, without a second download of the others", async () => {
    const hub = hubWith();
    const { options, final } = optionsFor(hub);
    await resolveBaseModel(options);
    writeFileSync(join(final, "tokenizer.json"), "");
    hub.requests.length = 0;
    expect(await resolveBaseModel(options)).toEqual({ path: final, fetched: true });
    expect(readFileSync(join(final, "tokenizer.json"), "utf8")).toBe("{}");
    expect(downloads(hub)).toEqual([`GET /acme/Tiny-Chat/resolve/${hub.commit}/tokenizer.json`]);
  });

  test("that two starts want at once is fetched by one of them", async () => {
    const hub = hubWith();
    const { options, final } = optionsFor(hub);
    const both = await Promise.all([resolveBaseModel(options), resolveBaseModel(options)]);
    expect(both.map(({ path }) => path)).toEqual([final, final]);
    expect(both.filter(({ fetched }) => fetched)).toHaveLength(1);
    expect(downloads(hub)).toHaveLength(4);
  });

  test("can be given up: what is under way ends, what is here stays", async () => {
    const hub = hubWith();
    hub.pieceMs = 10;
    const stop = new AbortController();
    const { options, final, partials } = optionsFor(hub, { signal: stop.signal });
    const resolving = resolveBaseModel(options);
    await until("a megabyte is here", () => largest(partials) >= megabyte);
    stop.abort(new Error("given up"));
    await expect(resolving).rejects.toThrow("given up");
    expect(processesWith(`${final}.fetching`)).toEqual([]);
    expect(largest(partials)).toBeGreaterThanOrEqual(megabyte);
  });
});

describe("a model that cannot be had is refused", () => {
  test("gated: with the page of its terms and HF_TOKEN; the right token opens it", async () => {
    const hub = hubWith({ gated: true, token: "hf_right" });
    const without = await refusal(optionsFor(hub).options);
    expect(without.message).toBe("model acme/Tiny-Chat: it is gated, and no token is set");
    expect(without.remedy).toBe(
      `accept its terms at ${hub.url}/acme/Tiny-Chat, and set HF_TOKEN to a token of that account`,
    );
    const other = await refusal(optionsFor(hub, { env: { HF_TOKEN: "hf_other" } }).options);
    expect(other.message).toContain("the account of HF_TOKEN has not accepted its terms");
    const { options, final } = optionsFor(hub, { env: { HF_TOKEN: "hf_right" } });
    expect(await resolveBaseModel(options)).toEqual({ path: final, fetched: true });
    expect(existsSync(join(final, ".partial"))).toBe(false);
  });

  test("with a token that the hub does not take", async () => {
    const { message, remedy } = await refusal(
      optionsFor(hubWith(), { env: { HF_TOKEN: "hf_expired" } }).options,
    );
    expect(message).toBe("model acme/Tiny-Chat: the hub refuses the token in HF_TOKEN");
    expect(remedy).toBe("set HF_TOKEN to a valid token, or unset it");
  });

  test("too large for the memory at hand, before anything is downloaded", async () => {
    const hub = hubWith({ parameters: 4e9 });
    const use = { profile: "cpu", availableMemoryBytes: 16e9 } as const;
    const { message } = await refusal(optionsFor(hub, { use }).options);
    expect(message).toContain("trainer 25.0 GB = 36.4 GB, and 16.0 GB of memory are free");
    expect(downloads(hub)).toEqual([]);
  });

  test("unknown: with the nearest name; an unknown revision with the nearest revision", async () => {
    const hub = hubWith();
    const name = await refusal(optionsFor(hub, { model: "acme/Tiny-Chatt" }).options);
    expect(name.message).toBe("model acme/Tiny-Chatt: the hub has no such model, or it is private");
    expect(name.remedy).toBe("did you mean acme/Tiny-Chat?");
    const revision = await refusal(optionsFor(hub, { model: "acme/Tiny-Chat@mian" }).options);
    expect(revision.message).toBe("model acme/Tiny-Chat: it has no revision mian");
    expect(revision.remedy).toBe("did you mean main?");
  });

  test("for its kind of weights before anything is downloaded", async () => {
    const hub = hubWith({ files: { "model-q4.gguf": "x", "config.json": "{}" } });
    expect((await refusal(optionsFor(hub).options)).message).toContain("its weights are GGUF");
    expect(downloads(hub)).toEqual([]);
    const adapters = hubWith({ files: { "adapter_config.json": "{}", "adapter_model.safetensors": "x" } });
    expect((await refusal(optionsFor(adapters).options)).message).toContain("it is only an adapter");
  });

  test("without a network, unless huggingface_hub has it in its own cache", async () => {
    const hub = hubWith();
    await hub.stop();
    const { options, folder, final } = optionsFor(hub);
    const refused = await refusal(options);
    expect(refused.message).toContain("the hub cannot be reached and no copy is here");
    expect(refused.message).toContain(hub.url);
    expect(refused.remedy).toContain("HTTPS_PROXY and HF_ENDPOINT are honoured");
    const cached = join(folder, "hf", "hub", "models--acme--Tiny-Chat");
    const snapshot = join(cached, "snapshots", hub.commit);
    mkdirSync(snapshot, { recursive: true });
    mkdirSync(join(cached, "refs"));
    writeFileSync(join(cached, "refs", "main"), hub.commit);
    for (const [name, content] of Object.entries(files)) writeFileSync(join(snapshot, name), content);
    expect(await resolveBaseModel(options)).toEqual({ path: final, fetched: true });
    expect(weights.equals(readFileSync(join(final, "model.safetensors")))).toBe(true);
  });
});

function largest(folder: string): number {
  if (!existsSync(folder)) return 0;
  return Math.max(0, ...readdirSync(folder).map((name) => statSync(join(folder, name)).size));
}
