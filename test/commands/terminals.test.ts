import { afterEach, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connectStore } from "../../src/client/http-store.ts";
import { freePort } from "../../src/engine/port-owner.ts";
import { until } from "../helpers/processes.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";
import { type AglProcess, startAgl } from "../real/agl-process.ts";

const folder = temporaryFolder();
const program = [process.execPath, join(import.meta.dir, "..", "..", "src", "main.ts")];
const limitMs = 60_000;
const started: AglProcess[] = [];
let number = 0;

function place(files: Record<string, string> = {}): string {
  const cwd = join(folder, `place-${++number}`);
  mkdirSync(cwd);
  for (const [name, text] of Object.entries(files)) writeFileSync(join(cwd, name), text);
  return cwd;
}

function start(args: string[], cwd: string): AglProcess {
  const agl = startAgl(args, cwd, { AGL_CACHE: join(folder, "cache") }, program);
  started.push(agl);
  return agl;
}

afterEach(async () => {
  for (const agl of started) agl.signal("SIGTERM");
  for (const agl of started.splice(0)) {
    await agl.exited;
    await until("no process lives", () => agl.processes().length === 0, 5_000);
  }
});

const quick = "export default { name: 'quick', run: (task) => task.target };";

describe("agl store", () => {
  test(
    "keeps what it acknowledged over a stop and a start, and says where it listens",
    async () => {
      const cwd = place();
      const port = freePort();
      const first = start(["store", "--store-port", String(port)], cwd);
      await first.waitForLine(/^store: http/, limitMs);
      expect(first.lines[0]).toBe(`store: http://127.0.0.1:${port}  database ${join(cwd, "agl.db")}`);
      const store = connectStore(`http://127.0.0.1:${port}`);
      const [rollout] = await store.enqueueRollouts([{ input: { a: 1 } }]);
      first.signal("SIGTERM");
      expect(await first.exited).toBe(0);
      const second = start(["store", "--store-port", String(port)], cwd);
      await second.waitForLine(/^store: http/, limitMs);
      expect(await store.getRollout(rollout?.rollout_id as string)).toMatchObject({
        input: { a: 1 },
        status: "queuing",
      });
      await store.close();
    },
    limitMs,
  );

  test(
    "is refused a second time on the same file, with the pid of the first",
    async () => {
      const cwd = place();
      const first = start(["store", "--store-port", String(freePort())], cwd);
      await first.waitForLine(/^store: http/, limitMs);
      const second = start(["store", "--store-port", String(freePort())], cwd);
      expect(await second.exited).toBe(1);
      expect(second.errors()).toContain(`${first.pid}`);
      expect(second.errors()).not.toContain("    at ");
    },
    limitMs,
  );
});

describe("agl runners", () => {
  // O21
  test(
    "started before the store wait for it, say so, and all connect when it comes",
    async () => {
      const cwd = place({ "agent.ts": quick });
      const port = freePort();
      const url = `http://127.0.0.1:${port}`;
      const runners = start(["runners", "agent.ts", "-n", "16", "--store-url", url], cwd);
      await runners.waitForLine(/^waiting: no store answers at/, limitMs);
      await Bun.sleep(2_000);
      start(["store", "--store-port", String(port), "--store-db", ":memory:"], cwd);
      await runners.waitForLine(/^runners: ready, agent quick, 16 workers/, limitMs);
      const store = connectStore(url);
      await until("16 workers are known", async () => (await store.queryWorkers({})).total === 16, 20_000);
      const rollouts = await store.enqueueRollouts(
        Array.from({ length: 32 }, (_, target) => ({ input: { target } })),
      );
      await store.addResources({
        main_llm: {
          resource_type: "llm",
          endpoint: "http://127.0.0.1:1/v1",
          model: "none",
          api_key: null,
          sampling_parameters: {},
        },
      });
      await until(
        "all rollouts have ended",
        async () => {
          const ids = rollouts.map(({ rollout_id }) => rollout_id);
          return (await store.waitForRollouts({ rollout_ids: ids, wait_seconds: 1 })).length === 32;
        },
        20_000,
      );
      const { items } = await store.queryWorkers({});
      expect(items.every(({ heartbeat_stats }) => heartbeat_stats?.["agent"] === "quick")).toBe(true);
      await store.close();
    },
    limitMs,
  );

  test(
    "end at their limit when no store comes, and name the setting",
    async () => {
      const url = `http://127.0.0.1:${freePort()}`;
      const cwd = place({ "agent.ts": quick });
      const runners = start(["runners", "agent.ts", "--store-url", url, "--store-connect-seconds", "1"], cwd);
      expect(await runners.exited).toBe(1);
      expect(runners.errors()).toBe(
        `error: no store answers at ${url} (waited 1 s)\n  start it with \`agl store\`, or name its address with --store-url\n`,
      );
    },
    limitMs,
  );
});

describe("agl proxy", () => {
  test(
    "forwards to the models of a list, and takes a changed list without a restart",
    async () => {
      const cwd = place();
      const engine = (name: string) =>
        Bun.serve({
          hostname: "127.0.0.1",
          port: 0,
          fetch: () =>
            Response.json({
              id: name,
              choices: [{ index: 0, message: { role: "assistant", content: name } }],
            }),
        });
      const [one, two] = [engine("one"), engine("two")];
      const entry = (port: number | undefined) =>
        JSON.stringify([
          {
            model_name: "m",
            litellm_params: {
              model: "hosted_vllm/models/version_0",
              api_base: `http://127.0.0.1:${port}/v1`,
            },
          },
        ]);
      const file = join(cwd, "models.json");
      writeFileSync(file, entry(one.port));
      const storePort = freePort();
      const port = freePort();
      start(["store", "--store-port", String(storePort), "--store-db", ":memory:"], cwd);
      const proxy = start(
        [
          ["proxy", "--proxy-model-list", file, "--proxy-port", String(port)],
          ["--store-url", `http://127.0.0.1:${storePort}`],
        ].flat(),
        cwd,
      );
      await proxy.waitForLine(/^proxy: http.*models m$/, limitMs);
      const answer = async () => {
        const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
          method: "POST",
          body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "?" }] }),
          headers: { "content-type": "application/json" },
        });
        return ((await response.json()) as { id: string }).id;
      };
      expect(await answer()).toBe("one");
      writeFileSync(file, "[{]");
      await proxy.waitForLine(/the models of before are kept/, limitMs);
      expect(await answer()).toBe("one");
      writeFileSync(file, entry(two.port));
      await proxy.waitForLine(/has changed: models m/, limitMs);
      expect(await answer()).toBe("two");
      await Promise.all([one.stop(true), two.stop(true)]);
    },
    limitMs,
  );

  test(
    "without a model to forward to is refused",
    async () => {
      const proxy = start(["proxy", "--proxy-port", String(freePort())], place());
      expect(await proxy.exited).toBe(2);
      expect(proxy.errors()).toStartWith("error: no model to forward to\n");
    },
    limitMs,
  );
});

describe("agl algo", () => {
  test(
    "refuses an algorithm file that is wrong before anything is started",
    async () => {
      const cases: [string, string][] = [
        ["export default 3;", "exports no function as its default"],
        ["export default async function ( {", "cannot be loaded"],
      ];
      for (const [text, message] of cases) {
        const cwd = place({ "algorithm.ts": text });
        const algo = start(["algo", "algorithm.ts", "--proxy-port", String(freePort())], cwd);
        expect(await algo.exited).toBe(2);
        expect(algo.errors()).toContain(message);
        expect(algo.errors()).not.toContain("    at ");
      }
    },
    limitMs,
  );

  test(
    "takes tasks of any shape: what they mean is up to the runners' agent",
    async () => {
      const cwd = place({
        "agent.ts": quick,
        "algorithm.ts": "export default async ({ train, say }) => say(`target ${train[0].target}`);",
        "tasks.jsonl": '{"input": "the capital of France?", "target": "Paris"}',
      });
      const port = freePort();
      const store = ["--store-url", `http://127.0.0.1:${port}`];
      using engine = Bun.serve({
        hostname: "127.0.0.1",
        port: 0,
        fetch: () => Response.json({ data: [{ id: "m" }] }),
      });
      start(["store", "--store-port", String(port), "--store-db", ":memory:"], cwd);
      start(["runners", "agent.ts", "-n", "1", ...store], cwd);
      const tasks = ["--tasks-train", "tasks.jsonl", "--tasks-validation", "tasks.jsonl"];
      const server = ["--engine-url", `http://127.0.0.1:${engine.port}/v1`];
      const proxy = ["--proxy-port", String(freePort())];
      const algo = start(["algo", "algorithm.ts", ...store, ...proxy, ...server, ...tasks], cwd);
      expect({ code: await algo.exited, said: algo.errors() }).toEqual({ code: 0, said: "" });
      expect(algo.lines).toContain("target Paris");
    },
    limitMs,
  );
});

test(
  "a proxy that is stopped while it waits for its store does not say that it serves",
  async () => {
    const store = `http://127.0.0.1:${freePort()}`;
    const engine = ["--engine-url", "http://127.0.0.1:1/v1", "--model-name", "m"];
    const flags = ["--store-url", store, ...engine, "--proxy-port", String(freePort())];
    const proxy = start(["proxy", ...flags], place());
    await proxy.waitForLine(/^waiting: no store answers at/, limitMs);
    proxy.signal("SIGINT");
    expect({ code: await proxy.exited, said: proxy.errors() }).toEqual({ code: 130, said: "" });
    expect(proxy.lines.filter((line) => /^(proxy|calls):/.test(line))).toEqual([]);
  },
  limitMs,
);

test(
  "a proxy with an empty list of models says so, and takes the ones that are named later",
  async () => {
    const cwd = place({ "models.json": "[]" });
    const port = freePort();
    start(["store", "--store-port", String(port), "--store-db", ":memory:"], cwd);
    const flags = ["--store-url", `http://127.0.0.1:${port}`, "--proxy-model-list", "models.json"];
    const proxy = start(["proxy", ...flags, "--proxy-port", String(freePort())], cwd);
    await proxy.waitForLine(/^proxy: .*, models none yet$/, limitMs);
    const one = {
      model_name: "one",
      litellm_params: { model: "hosted_vllm/m", api_base: "http://127.0.0.1:1/v1" },
    };
    writeFileSync(join(cwd, "models.json"), JSON.stringify([one]));
    await proxy.waitForLine(/^models\.json has changed: models one$/, limitMs);
    proxy.signal("SIGTERM");
    expect(await proxy.exited).toBe(0);
  },
  limitMs,
);

test(
  "runners that are stopped leave no attempt behind, not even one that was handed to them in that moment",
  async () => {
    const slow =
      "export default { name: 'slow', run: (task, { signal }) => new Promise((_, no) => signal.addEventListener('abort', () => no(signal.reason))) };";
    const cwd = place({ "agent.ts": slow });
    const port = freePort();
    const url = `http://127.0.0.1:${port}`;
    start(["store", "--store-port", String(port), "--store-db", ":memory:"], cwd);
    const runners = start(["runners", "agent.ts", "-n", "2", "--store-url", url], cwd);
    await runners.waitForLine(/^runners: ready/, limitMs);
    const store = connectStore(url);
    await store.addResources({
      main_llm: {
        resource_type: "llm",
        endpoint: "http://127.0.0.1:1/v1",
        model: "none",
        api_key: null,
        sampling_parameters: {},
      },
    });
    const working = store.enqueueRollouts(Array.from({ length: 8 }, () => ({ input: {} })));
    runners.signal("SIGINT");
    await working;
    expect(await runners.exited).toBe(130);
    expect(runners.lines.at(-1)).toMatch(/^runners: stopped, 0 succeeded, \d failed$/);
    const { items } = await store.queryRollouts({ status_in: ["preparing", "running"] });
    expect(items).toEqual([]);
    await store.close();
  },
  limitMs,
);

test.each([
  ["missing.json", {}, /proxy\.model_list: missing\.json cannot be read/],
  [
    "broken.json",
    { "broken.json": '[{"api_key": sk-secret}]' },
    /proxy\.model_list: broken\.json is not JSON/,
  ],
])("a model list that is no use is named, and nothing of it is shown: %s", async (file, files, expected) => {
  const agl = start(["proxy", "--proxy-model-list", file], place(files));
  expect(await agl.exited).toBe(2);
  expect(agl.errors()).toMatch(expected);
  expect(agl.errors()).not.toContain("secret");
});
