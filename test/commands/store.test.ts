import { afterEach, describe, expect, test } from "bun:test";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connectStore } from "../../src/client/http-store.ts";
import { accessToken } from "../../src/commands/access-token.ts";
import { freePort } from "../../src/engine/port-owner.ts";
import { openStoreReader } from "../../src/store/store-reader.ts";
import { until } from "../helpers/processes.ts";
import { runAgl } from "../helpers/run-agl.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";
import { type AglProcess, startAgl } from "../real/agl-process.ts";

const folder = temporaryFolder();
const program = [process.execPath, join(import.meta.dir, "..", "..", "src", "main.ts")];
const limitMs = 60_000;
const token = "only-for-this-test-0123456789";
const started: AglProcess[] = [];
let number = 0;

function place(files: Record<string, string> = {}): string {
  const cwd = join(folder, `place-${++number}`);
  mkdirSync(cwd);
  for (const [name, text] of Object.entries(files)) writeFileSync(join(cwd, name), text);
  return cwd;
}

function start(args: string[], cwd: string, environment: Record<string, string> = {}): AglProcess {
  const agl = startAgl(args, cwd, { AGL_CACHE: join(folder, "cache"), ...environment }, program);
  started.push(agl);
  return agl;
}

async function startStore(args: string[] = [], environment: Record<string, string> = {}, cwd = place()) {
  const port = freePort();
  const store = start(["store", "--port", String(port), ...args], cwd, environment);
  const line = await store.waitForLine(/^store: http/, limitMs);
  return { store, port, cwd, line, url: `http://127.0.0.1:${port}` };
}

afterEach(async () => {
  for (const agl of started) agl.signal("SIGTERM");
  for (const agl of started.splice(0)) await agl.exited;
});

const quick = "export default { name: 'quick', run: (task) => task.target };";
const llm = {
  resource_type: "llm" as const,
  endpoint: "http://127.0.0.1:1/v1",
  model: "none",
  api_key: null,
  sampling_parameters: {},
};

describe("flags", () => {
  // Section 8.1
  test.each([
    ["--host 0.0.0.0", "there is no token", "--token-file FILE"],
    ["--n-workers 4", "--n-workers is Agent-lightning's", "one process serves the store"],
    ["--backend memory", "--backend is Agent-lightning's", "--db :memory:"],
    ["--backend mongo", "--backend is Agent-lightning's", "--db"],
    ["--mongo-uri mongodb://me:pass@box", "--mongo-uri is Agent-lightning's", "no database server"],
    ["--tracker prometheus console", "--tracker is Agent-lightning's", "/v1/prometheus"],
    ["--host http://box", "--host: expected an IP address or a host name", "agl help config"],
    [
      "--cors-origin box",
      "--cors-origin: expected an origin such as http://localhost:3000",
      "agl help config",
    ],
    ["--port 1 --store-port 2", "--port and --store-port are both given", "name one"],
    [`--token ${token}`, "can be read by every user of the machine", "AGL_TOKEN"],
    ["--token-file missing", "token_file: missing cannot be read", "openssl rand -hex 32 > missing"],
  ])("%s is answered with what to do", async (flags, message, remedy) => {
    const { code, out, err } = await runAgl(["store", ...flags.split(" ")], place());
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err).toContain(message);
    expect(err).toContain(remedy);
    expect(err).not.toMatch(/pass|only-for-this-test/);
  });

  test(
    "upstream's that ask for what there is are taken",
    async () => {
      const flags = [
        "--host",
        "localhost",
        "--log-level",
        "INFO",
        "--tracker",
        "prometheus",
        "--n-workers",
        "1",
      ];
      const { url, line } = await startStore([
        ...flags,
        "--db",
        ":memory:",
        "--cors-origin",
        "http://a.example",
      ]);
      expect(line).toMatch(/^store: http:\/\/localhost:\d+ {2}database :memory:$/);
      const answer = await fetch(`${url.replace("127.0.0.1", "localhost")}/v1/prometheus/`, {
        headers: { origin: "http://a.example" },
      });
      expect(answer.status).toBe(200);
      expect(answer.headers.get("access-control-allow-origin")).toBe("http://a.example");
    },
    limitMs,
  );

  // C-2
  test("the environment of upstream's Python programs is none of ours", async () => {
    const environment = { AGL_MANAGED_STORE: "0", AGL_SERVER_HOST: "box", AGL_SERVER_PORT: "1" };
    expect((await runAgl(["config"], place(), environment)).code).toBe(0);
  });
});

describe("the token", () => {
  const read = (text: string, mode = 0o600) => {
    const file = join(place(), "token");
    writeFileSync(file, text);
    chmodSync(file, mode);
    const warnings: string[] = [];
    const found = accessToken({ token_file: file }, { AGL_TOKEN: "of-the-environment-1234" }, (line) =>
      warnings.push(line),
    );
    return { found, warnings };
  };

  test("comes from the file, else from the environment", () => {
    expect(read(`${token}\n`)).toEqual({ found: token, warnings: [] });
    expect(accessToken({ token_file: undefined }, { AGL_TOKEN: token })).toBe(token);
    expect(accessToken({ token_file: undefined }, { AGL_TOKEN: "" })).toBeUndefined();
    expect(accessToken({ token_file: undefined }, {})).toBeUndefined();
    expect(() => accessToken({ token_file: undefined }, { AGL_TOKEN: "short" })).toThrow(
      "AGL_TOKEN: a token has",
    );
  });

  test("in a file that others may read is a warning", () => {
    expect(read(token, 0o644).warnings[0]).toMatch(/other users may read .* \(mode 644\); `chmod 600`/);
  });

  test.each(["short", `${token}/path`, `${token} blank`, "", "x".repeat(513)])(
    "%p is refused unseen",
    (text) => {
      expect(() => read(text)).toThrow(/a token has 16 to 512 characters/);
      if (text !== "") expect(() => read(text)).not.toThrow(text);
    },
  );

  test(
    "lets in runners and readers that have it, in the environment, in a file, and in the address, and shows up nowhere",
    async () => {
      const { url, port, store, cwd, line } = await startStore(
        ["--host", "0.0.0.0", "--access-log", "--log-level", "debug"],
        { AGL_TOKEN: token },
        place({ "agent.ts": quick, "token.txt": token }),
      );
      expect(line).toMatch(/a token is needed$/);
      const withPath = `http://127.0.0.1:${port}/t/${token}`;
      chmodSync(join(cwd, "token.txt"), 0o600);
      const runners = ["runners", "agent.ts", "-n", "1", "--log-level", "debug"];
      const parts = [
        start([...runners, "--runners-prefix", "env-", "--store-url", url], cwd, { AGL_TOKEN: token }),
        start(
          [...runners, "--runners-prefix", "file-", "--store-url", url, "--token-file", "token.txt"],
          cwd,
        ),
        start([...runners, "--runners-prefix", "path-", "--store-url", withPath], cwd),
      ];
      for (const part of parts) await part.waitForLine(/^runners: ready/, limitMs);
      const client = connectStore(withPath);
      await client.addResources({ main_llm: llm });
      const [rollout] = await client.enqueueRollouts([{ input: { target: 1 } }]);
      await client.waitForRollouts({ rollout_ids: [rollout!.rollout_id], timeout: 20 });
      const workers = async () =>
        (await client.queryWorkers({ sort_by: "worker_id" })).items
          .map(({ worker_id }) => worker_id)
          .join(" ");
      await until("all are known", async () => (await workers()) === "env-0 file-0 path-0", 20_000);
      await client.close();

      const exports = [
        await runAgl(["export", "rollouts", "--store", url], cwd, { AGL_TOKEN: token }),
        await runAgl(["export", "rollouts", "--store", withPath], cwd),
      ];
      for (const { code, out } of exports)
        expect({ code, status: JSON.parse(out).status }).toEqual({ code: 0, status: "succeeded" });
      const strangers = [
        await runAgl(["show", rollout!.rollout_id, "--store", url], cwd),
        await runAgl(["show", rollout!.rollout_id, "--store", `${url}/t/wrong-${token}`], cwd),
        await runAgl(["runners", "agent.ts", "--store-url", url], cwd),
      ];
      expect(strangers.map(({ code }) => code)).toEqual([1, 1, 1]);
      expect(strangers[0]!.err).toContain(`the store at ${url} asks for a token\n  set AGL_TOKEN`);
      expect(strangers[1]!.err).toContain("refuses the token that it was sent");
      expect(strangers[2]!.err).toContain("asks for a token");

      const shown = [store, ...parts].flatMap((part) => [...part.lines, part.errors()]);
      const said = [...shown, ...[...exports, ...strangers].flatMap(({ out, err }) => [out, err])].join("\n");
      expect(said).toContain("GET /v1/agl/health");
      expect(said).not.toContain(token);
    },
    limitMs,
  );
});

// C-1
test("a port that is taken ends the start with 1, and names who has it", async () => {
  using other = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response() });
  const { code, err } = await runAgl(["store", "--port", String(other.port)], place());
  expect(code).toBe(1);
  expect(err).toContain(`store.port: port ${other.port} is taken by pid ${process.pid}`);
});

// C-1
describe("a stop by SIGTERM", () => {
  test(
    "under load answers what was accepted, keeps what was acknowledged, and is no failure",
    async () => {
      const { store, url, cwd } = await startStore();
      let acknowledged = 0;
      let going = true;
      const writers = Array.from({ length: 8 }, async () => {
        while (going) {
          const body = JSON.stringify({ rollouts: [{ input: 1, mode: "train" }] });
          const answer = await fetch(`${url}/v1/agl/queues/rollouts/enqueue`, { method: "POST", body }).catch(
            () => null,
          );
          if (answer === null) return;
          if (answer.status === 201) acknowledged += 1;
        }
      });
      const rolloutIds = JSON.stringify({ rollout_ids: ["ro-1"], timeout: null });
      const blocked = await fetch(`${url}/v1/agl/rollouts`, { method: "POST", body: '{"input":1}' });
      const { rollout_id } = (await blocked.json()) as { rollout_id: string };
      const held = fetch(`${url}/v1/agl/waits/rollouts`, {
        method: "POST",
        body: rolloutIds.replace("ro-1", rollout_id),
      });
      await until("some writes", () => acknowledged > 200, 20_000);
      store.signal("SIGTERM");
      expect(await store.exited).toBe(0);
      expect((await held).status).toBe(503);
      going = false;
      await Promise.all(writers);
      expect(store.errors()).toBe("");
      const reader = openStoreReader(join(cwd, "agl.db"));
      const { total } = await reader.queryRollouts({ mode_in: ["train"], limit: 1 });
      await reader.close();
      expect(total).toBeGreaterThanOrEqual(acknowledged);
    },
    limitMs,
  );
});

test(
  "another store in the place of theirs: runners go on and say so, the algorithm ends, as its rollouts are gone",
  async () => {
    const cwd = place({
      "agent.ts": quick,
      "algorithm.ts": `export default async ({ store, say }) => {
        const { rollout_id } = await store.startRollout({ input: "nobody works on it" });
        say("started");
        await store.waitForRollouts({ rollout_ids: [rollout_id], timeout: null });
      };`,
      "tasks.jsonl": '{"input": 1}',
    });
    using engine = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: () => Response.json({ data: [{ id: "m" }] }),
    });
    const { store, url, port } = await startStore(["--db", ":memory:"], {}, cwd);
    const there = ["--store-url", url];
    const runners = start(["runners", "agent.ts", "-n", "1", ...there], cwd);
    const tasks = ["--tasks-train", "tasks.jsonl", "--tasks-validation", "tasks.jsonl"];
    const services = [
      "--engine-url",
      `http://127.0.0.1:${engine.port}/v1`,
      "--proxy-port",
      String(freePort()),
    ];
    const algo = start(["algo", "algorithm.ts", ...there, ...services, ...tasks], cwd);
    await algo.waitForLine(/^started/, limitMs);
    const { storeId } = await connectStore(url).health();
    store.signal("SIGTERM");
    await store.exited;
    start(["store", "--port", String(port), "--db", ":memory:"], cwd);
    expect(await algo.exited).toBe(1);
    expect(algo.errors()).toMatch(
      new RegExp(`^error: the store at ${url} is another one than before \\(${storeId} then, .* now\\)`, "m"),
    );
    expect(algo.errors()).toContain("the same --db");
    // A dequeue that is held answers with the work.
    await connectStore(url).enqueueRollouts([{ input: {} }]);
    await runners.waitForLine(/^runners: the store at .* is another one than before/, limitMs);
  },
  limitMs,
);
