import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { selfCommand } from "../../src/self.ts";
import { serveStore, type StoreServer } from "../../src/server/serve.ts";
import { startRecordedRun } from "../helpers/recorded-run.ts";
import { runAgl } from "../helpers/run-agl.ts";
import { sampleSpan } from "../helpers/sample-span.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const folder = temporaryFolder();
const exactInput = `{"10":1.0,"2":12345678901234567890,"price":1e-7}`;
let run: Awaited<ReturnType<typeof startRecordedRun>>;
let server: StoreServer;
let trained: { rolloutId: string; attemptId: string };
let measured: { rolloutId: string; attemptId: string };

beforeAll(async () => {
  run = await startRecordedRun(folder);
  server = serveStore({ store: run.store, hostname: "127.0.0.1", port: 0 });
  trained = await run.record({ question: "12*7" });
  measured = await run.record({ question: "13*7" }, { mode: "val" });
  // As a client sends it: numbers and the order of members are the client's own.
  await run.store.addResources({
    main: { resource_type: "prompt_template", template: "x", engine: "jinja" },
  });
  await run.store.updateWorker("Worker-0", { cpu: 1 });
  const answer = await fetch(`${server.url}/v1/agl/queues/rollouts/enqueue`, {
    method: "POST",
    body: `{"rollouts":[{"input":${exactInput}}]}`,
  });
  expect(answer.status).toBe(201);
});

afterAll(async () => {
  await server.stop();
  await run.close();
});

async function exportLines(...args: string[]): Promise<any[]> {
  const { code, out, err } = await runAgl(["export", ...args], folder);
  expect({ code, err: code === 0 ? "" : err }).toEqual({ code: 0, err: "" });
  return out
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));
}

describe("while the store's process lives", () => {
  test("the newest run is read when nothing is named", async () => {
    const rollouts = await exportLines("rollouts");
    expect(rollouts.map(({ rollout_id }) => rollout_id).slice(0, 2)).toEqual([
      trained.rolloutId,
      measured.rolloutId,
    ]);
    expect(rollouts[0].attempt.attempt_id).toBe(trained.attemptId);
    expect((await exportLines("attempts")).map(({ attempt_id }) => attempt_id)).toEqual([
      trained.attemptId,
      measured.attemptId,
    ]);
  });

  test("the file, the run and the served store give the same bytes, opaque values unchanged", async () => {
    for (const kind of ["rollouts", "spans", "resources", "workers", "all"]) {
      const outputs = await Promise.all(
        [
          ["--store", server.url],
          ["--db", join(run.path, "store.db")],
          ["--run", "2026-11-29-1"],
        ].map(async (source) => (await runAgl(["export", kind, ...source], folder)).out),
      );
      expect(new Set(outputs).size).toBe(1);
      expect(outputs[0]).not.toBe("");
      if (kind === "rollouts" || kind === "all") expect(outputs[0]).toContain(`"input":${exactInput}`);
    }
  });

  test("rows are what training would read, without the rollouts that a model is measured on", async () => {
    const { out, err } = await runAgl(["export", "rows"], folder);
    const rows = out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(rows).toHaveLength(2);
    expect(rows[0]).toMatchObject({
      input_ids: [1, 2, 3, 10, 0],
      attention_mask: [1, 1, 1, 1, 1],
      labels: [-100, -100, -100, 10, 0],
      reward: 1,
      rollout_id: trained.rolloutId,
      attempt_id: trained.attemptId,
      checkpoint: "version_0",
    });
    expect(err).toBe("calls that are no rows: 2 mode_val\n");
    expect(await exportLines("rows", "--mode", "val")).toHaveLength(2);
  });

  test("triplets keep each call's own reward", async () => {
    const triplets = await exportLines("triplets", "--rollout", trained.rolloutId);
    expect(triplets.map(({ reward }) => reward)).toEqual([null, 1]);
    expect(triplets[1].prompt.token_ids).toEqual([1, 2, 3]);
  });

  test("messages are the calls in words, with the reward that flows back to each", async () => {
    const { code, out, err } = await runAgl(["export", "messages"], folder);
    const lines = out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect([code, err]).toEqual([0, "calls that are no messages: 2 mode_val\n"]);
    const said = (question: string, answer: string) => [
      { role: "system", content: "Be brief." },
      { role: "user", content: question },
      { role: "assistant", content: answer },
    ];
    const { rolloutId: rollout_id, attemptId: attempt_id } = trained;
    expect(lines).toEqual([
      {
        messages: said("What is 12*7?", "Answer 0"),
        tools: null,
        reward: 1,
        rollout_id,
        attempt_id,
        response_id: "chatcmpl-0",
        sequence_id: 1,
        model: "models/version_0",
        checkpoint: "version_0",
        finish_reason: "stop",
      },
      expect.objectContaining({ messages: said("So?", "Answer 1"), reward: 1, sequence_id: 3 }),
    ]);
    expect(Object.keys(lines[0]).slice(0, 2)).toEqual(["messages", "tools"]);
    expect(await exportLines("messages", "--mode", "val")).toHaveLength(2);
    expect(await exportLines("messages", "--attempt", measured.attemptId, "--mode", "val")).toHaveLength(2);
    expect(await exportLines("messages", "--since", "2100-01-01")).toEqual([]);
  });

  test("filters by state and mode", async () => {
    expect(await exportLines("rollouts", "--status", "queuing,running")).toHaveLength(1);
    expect(await exportLines("rollouts", "--mode", "val", "--mode", "test")).toHaveLength(1);
    expect(await exportLines("spans", "--status", "failed")).toEqual([]);
  });

  test("filters by time, attempt and the name of spans", async () => {
    const [first, second] = await exportLines("rollouts");
    const since = ["--since", String(second.start_time)];
    expect((await exportLines("rollouts", ...since)).map(({ rollout_id }) => rollout_id)).not.toContain(
      first.rollout_id,
    );
    expect(await exportLines("attempts", "--until", String(second.start_time))).toHaveLength(1);
    expect(await exportLines("rollouts", "--since", "2001-01-01", "--until", "2001-01-02T10:00Z")).toEqual(
      [],
    );

    const spans = await exportLines("spans", "--attempt", measured.attemptId);
    const [{ name }] = spans;
    expect(new Set(spans.map(({ attempt_id }) => attempt_id))).toEqual(new Set([measured.attemptId]));
    const named = await exportLines("spans", "--attempt", "latest", "--name", name, "--mode", "val");
    expect(named).toEqual(spans.filter((span) => span.name === name));
    expect(await exportLines("triplets", "--attempt", measured.attemptId)).toHaveLength(2);
  });

  test("everything is told with its kind, each thing after what it belongs to", async () => {
    const lines = await exportLines("all");
    const told = lines.map((line) => Object.entries<any>(line)[0]!);
    const order = ["resources", "rollout", "attempt", "span"];
    const ofTrained = told
      .filter(([, value]) => value.rollout_id === trained.rolloutId)
      .map(([kind]) => kind);
    expect(ofTrained).toEqual(ofTrained.toSorted((one, other) => order.indexOf(one) - order.indexOf(other)));
    expect(told[0]![0]).toBe("resources");
    expect(told.at(-1)![0]).toBe("worker");
    expect(told.find(([kind]) => kind === "rollout")![1].attempt).toBeUndefined();
    const spans = told.filter(([kind]) => kind === "span").map(([, value]) => value);
    expect(spans).toEqual(await exportLines("spans"));
  });

  test("reading leaves the store as it was and its process the only writer", async () => {
    const before = await run.store.statistics();
    await exportLines("spans");
    const { uptime: _, ...after } = await run.store.statistics();
    expect(before).toMatchObject(after);
    await run.record({ question: "still writing" });
  });

  test("a file appears when it is complete", async () => {
    const file = join(folder, "spans.jsonl");
    expect((await runAgl(["export", "spans", "--output", file], folder)).out).toBe("");
    const lines = readFileSync(file, "utf8").trim().split("\n");
    expect(lines.length).toBe((await exportLines("spans")).length);
    expect(existsSync(`${file}.part`)).toBe(false);
  });

  test("a reader that leaves ends it quietly", async () => {
    const [command, ...args] = selfCommand(["export", "spans"]);
    const line = [command, ...args].map((part) => `'${part}'`).join(" ");
    const child = Bun.spawn(
      ["bash", "-c", `for i in 1 2 3; do ${line} | head -1 | wc -l; echo "\${PIPESTATUS[0]}"; done`],
      { cwd: folder, stdout: "pipe", stderr: "pipe" },
    );
    const out = await new Response(child.stdout).text();
    expect(await new Response(child.stderr).text()).toBe("");
    expect(out.trim().split("\n")).toEqual(["1", "0", "1", "0", "1", "0"]);
  });
});

test("what becomes no line is counted on stderr: calls by reason, rollouts and rewards without a call", async () => {
  const other = temporaryFolder();
  const lone = await startRecordedRun(other);
  const end = async (
    status: "succeeded" | "failed",
    prepare: (url: string, ids: [string, string]) => Promise<void>,
  ) => {
    const { rollout_id, attempt } = await lone.store.startRollout({ input: "x", mode: "train" });
    const url = `/rollout/${rollout_id}/attempt/${attempt.attempt_id}/v1/chat/completions`;
    await prepare(url, [rollout_id, attempt.attempt_id]);
    await lone.store.updateAttempt(rollout_id, attempt.attempt_id, { status });
  };
  await end("succeeded", (_, ids) => lone.reward(...ids, 1));
  await end("failed", (url) => lone.ask(url, "One?"));
  await end("succeeded", async (_, [rollout_id, attempt_id]) => {
    const attributes = { "gen_ai.operation.name": "chat", "gen_ai.response.id": "C" };
    await lone.store.addSpan(sampleSpan({ rollout_id, attempt_id, name: "chat m", attributes }));
  });
  const told = async (...args: string[]) => {
    const { out, err } = await runAgl(["export", ...args], other);
    return [out === "" ? 0 : out.trim().split("\n").length, ...err.trim().split("\n")];
  };
  const without = ["ended rollouts without a call: 1", "rewards without a call: 1"];
  expect(await told("rows")).toEqual([
    0,
    "calls that are no rows: 1 no_reward, 1 not_through_proxy",
    ...without,
  ]);
  expect(await told("triplets")).toEqual([1, "calls that are no triplets: 1 not_through_proxy", ...without]);
  expect(await told("messages")).toEqual([
    0,
    "calls that are no messages: 1 rollout_failed, 1 no_messages",
    ...without,
  ]);
  expect(await told("messages", "--status", "failed")).toEqual([1, ""]);
  await lone.close();
});

test("a large output comes through a slow pipe to the last byte, and to `head` without a trace", async () => {
  const big = temporaryFolder();
  const many = await startRecordedRun(big);
  await many.store.enqueueRollouts(
    Array.from({ length: 3_000 }, (_, index) => ({ input: { index, text: "x".repeat(1_000) } })),
  );
  await many.close();
  const line = selfCommand(["export", "rollouts"])
    .map((part) => `'${part}'`)
    .join(" ");
  const script = `${line} | (sleep 0.5; wc -c); ${line} | wc -c; ${line} | head -1 | wc -l; echo "\${PIPESTATUS[0]}"`;
  const child = Bun.spawn(["bash", "-c", script], { cwd: big, stdout: "pipe", stderr: "pipe" });
  const [slow, fast, first, status] = (await new Response(child.stdout).text()).trim().split(/\s+/);
  expect(slow).toBe(fast!);
  expect(Number(fast)).toBeGreaterThan(3_000_000);
  expect([first, status]).toEqual(["1", "0"]);
  expect(await new Response(child.stderr).text()).toBe("");
});

test("a store whose process was killed is read with everything it had committed", async () => {
  const killed = temporaryFolder();
  const writer = Bun.spawn(
    [
      process.execPath,
      "-e",
      `import { openStore } from ${JSON.stringify(join(import.meta.dir, "../../src/store/sqlite-store.ts"))};
       const store = openStore({ path: ${JSON.stringify(join(killed, "store.db"))} });
       await store.enqueueRollouts([{ input: 1 }, { input: 2 }]);
       process.kill(process.pid, "SIGKILL");`,
    ],
    { stdout: "inherit", stderr: "inherit" },
  );
  await writer.exited;
  const { code, out } = await runAgl(["export", "rollouts", "--db", "store.db"], killed);
  expect(code).toBe(0);
  expect(out.trim().split("\n")).toHaveLength(2);
});

describe("what cannot be exported is refused with what to do", () => {
  const refusals: [string, string[], RegExp][] = [
    ["another kind", ["calls"], /'calls' is invalid.*rollouts, attempts, spans, triplets, rows/],
    ["an unknown state", ["rows", "--status", "done"], /Expected one of queuing.*not "done"/],
    ["an unknown rollout", ["rows", "--rollout", "ro-none"], /there is no rollout ro-none/],
    ["an unknown attempt", ["spans", "--attempt", "at-none"], /chosen rollouts have no attempt at-none/],
    ["a time that is none", ["rows", "--since", "soon"], /Expected a date.*not "soon"/],
    ["a day that does not exist", ["rows", "--until", "2026-13-01"], /Expected a date/],
    ["a filter without effect", ["rows", "--name", "x"], /--name does not choose among rows\n.*--rollout/],
    [
      "a filter of what is written whole",
      ["workers", "--mode", "val"],
      /--mode does not choose among workers/,
    ],
    ["two sources", ["rows", "--db", "a", "--run", "b"], /--db and --run are given/],
    ["a missing file", ["rows", "--db", "none.db"], /there is no store file none\.db/],
    ["a missing run", ["rows", "--run", "none"], /none is no run's folder[^]*newest runs are 2026-11-29-1/],
    ["no address", ["rows", "--store", "here"], /--store is "here"/],
    ["nobody at the address", ["rows", "--store", "http://127.0.0.1:9"], /no store answers at/],
    ["an output nowhere", ["rows", "--output", "none/rows.jsonl"], /--output: none\/rows\.jsonl/],
  ];
  test.each(refusals)("%s", async (_, args, message) => {
    const { code, out, err } = await runAgl(["export", ...args], folder);
    expect(code).not.toBe(0);
    expect(out).toBe("");
    expect(err).toMatch(message);
    expect(err).not.toContain("    at ");
  });

  test("a folder without runs", async () => {
    const empty = temporaryFolder();
    const { code, err } = await runAgl(["export", "rows"], empty);
    expect(code).toBe(2);
    expect(err).toMatch(/there is no run in .*\n.*--store.*--db.*--run/);
    expect(readdirSync(empty)).toEqual([]);
  });
});
