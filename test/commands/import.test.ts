import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { selfCommand } from "../../src/self.ts";
import { openStore } from "../../src/store/sqlite-store.ts";
import { startRecordedRun } from "../helpers/recorded-run.ts";
import { runAgl } from "../helpers/run-agl.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const folder = temporaryFolder();
let run: Awaited<ReturnType<typeof startRecordedRun>>;
let whole: string;
let linesOfKind: Record<string, string>;

beforeAll(async () => {
  run = await startRecordedRun(folder);
  await run.store.addResources({
    main: { resource_type: "prompt_template", template: "é {{x}}", engine: "jinja" },
  });
  await run.record({ question: "12*7" });
  const { rolloutId, attemptId } = await run.record({ question: "13*7" }, { mode: "val", reward: 0 });
  const { attempt } = await run.store.startAttempt(rolloutId, "Worker-0");
  await run.reward(rolloutId, attempt.attempt_id, 1);
  expect(attemptId).not.toBe(attempt.attempt_id);
  await run.store.enqueueRollouts([{ input: "waits" }]);
  whole = (await agl("export", "all")).out;
  linesOfKind = Object.fromEntries(
    ["resources", "rollout", "attempt", "span", "worker"].map((kind) => [
      kind,
      `${whole.split("\n").find((line) => line.startsWith(`{"${kind}":`))}\n`,
    ]),
  );
});

afterAll(() => run.close());

async function agl(...args: string[]) {
  return runAgl(args, folder);
}

/** What is piped in, and what came of it. */
async function importText(text: string, db: string, ...args: string[]) {
  const file = `${db}.jsonl`;
  writeFileSync(join(folder, file), text);
  return agl("import", file, "--db", db, ...args);
}

describe("a store's whole content, while its process lives", () => {
  test("comes out of a copy byte for byte, and is there already the second time", async () => {
    const first = await importText(whole, "copy.db");
    expect(first).toEqual({
      code: 0,
      out: "imported into copy.db: 1 set of resources, 3 rollouts, 3 attempts, 17 spans, 1 worker\n",
      err: "",
    });
    expect((await agl("export", "all", "--db", "copy.db")).out).toBe(whole);
    const second = await importText(whole, "copy.db");
    expect(second.out).toBe(
      "imported into copy.db: nothing new\n" +
        "there already: 1 set of resources, 3 rollouts, 3 attempts, 17 spans, 1 worker\n",
    );
    expect((await agl("export", "all", "--db", "copy.db")).out).toBe(whole);
  });

  test("gives the same triplets and rows", async () => {
    await importText(whole, "derived.db");
    for (const kind of ["triplets", "rows"]) {
      const { out } = await agl("export", kind, "--db", "derived.db");
      expect(out).toBe((await agl("export", kind)).out);
      expect(out).not.toBe("");
    }
  });

  test("the queued rollout is handed to the next runner", async () => {
    await importText(whole, "queue.db");
    const store = openStore({ path: join(folder, "queue.db") });
    const claimed = await store.dequeueRollouts({ limit: 10 });
    await store.close();
    expect(claimed.map(({ input }) => input)).toEqual(["waits"]);
  });

  test("the lines of each kind alone do, parents first", async () => {
    const kinds = ["resources", "rollouts", "attempts", "spans", "workers"];
    const parts = await Promise.all(kinds.map(async (kind) => (await agl("export", kind)).out));
    const { code, out } = await importText(parts.join(""), "parts.db");
    expect({ code, out }).toEqual({
      code: 0,
      out:
        "imported into parts.db: 1 set of resources, 3 rollouts, 3 attempts, 17 spans, 1 worker\n" +
        "there already: 2 attempts\n",
    });
    // Attempts of one rollout are told in the order of their numbers, whichever came first.
    expect((await agl("export", "all", "--db", "parts.db")).out).toBe(whole);
  });

  test("is read from stdin, and with what editors of other systems add", async () => {
    const [command, ...args] = selfCommand(["import", "-", "--db", "piped.db"]);
    const child = Bun.spawn([command!, ...args], { cwd: folder, stdin: "pipe", stdout: "pipe" });
    child.stdin.write(`\uFEFF${whole.replaceAll("\n", "\r\n\r\n")}`.trimEnd());
    await child.stdin.end();
    expect(await new Response(child.stdout).text()).toStartWith("imported into piped.db: 1 set of resources");
    expect((await agl("export", "all", "--db", "piped.db")).out).toBe(whole);
  });

  test("a dry run tells what would come, and makes nothing", async () => {
    const { out } = await importText(whole, "dry.db", "--dry-run");
    expect(out).toStartWith("would be imported into dry.db: 1 set of resources, 3 rollouts");
    expect(readdirSync(folder).filter((name) => name.startsWith("dry.db"))).toEqual(["dry.db.jsonl"]);
  });

  test("some rollouts are chosen together with what belongs to them", async () => {
    const chosen = (await agl("export", "all", "--mode", "val")).out;
    expect((await importText(chosen, "chosen.db")).out).toBe(
      "imported into chosen.db: 1 set of resources, 1 rollout, 2 attempts, 9 spans, 1 worker\n",
    );
    expect((await importText(whole, "chosen.db")).code).toBe(0);
    const { out } = await agl("export", "attempts", "--db", "chosen.db");
    expect(out.trim().split("\n")).toHaveLength(3);
  });
});

test("two stores become one; a worker of the same name stays as it is", async () => {
  const other = openStore({ path: join(folder, "merged.db") });
  await other.startRollout({ input: "older", worker_id: "Worker-0" });
  await other.addResources({});
  await other.close();
  const { out } = await importText(whole, "merged.db");
  expect(out).toEndWith("kept as the store has them: 1 worker\n");
  const merged = openStore({ path: join(folder, "merged.db") });
  expect(await merged.statistics()).toMatchObject({
    total_rollouts: 4,
    total_resources: 2,
    total_workers: 1,
  });
  // Written after those of the run, though imported before.
  expect((await merged.getLatestResources())?.resources).toEqual({});
  await merged.close();
});

describe("one line that cannot be taken, and nothing is imported", () => {
  const span = () => JSON.parse(linesOfKind["span"]!).span;
  const wrapped = (kind: string, value: unknown) => `${JSON.stringify({ [kind]: value })}\n`;
  const parents = () => linesOfKind["rollout"]! + linesOfKind["attempt"]!;
  const refusals: [string, () => string, RegExp][] = [
    ["no JSON", () => `${parents()}{"span":\n`, /line 3: is not JSON/],
    ["no object", () => "[1]\n", /line 1: expected a JSON object, not \[1\]/],
    ["nothing known", () => '{"a":1}\n', /line 1: is neither resources nor a rollout.*members are: a/],
    [
      "a row",
      () => '{"input_ids":[1],"labels":[1]}\n',
      /is a row, which is made anew from spans.*export all/,
    ],
    ["a triplet", () => '{"prompt":{},"response":{}}\n', /is a triplet.*`agl export all`/],
    ["a conversation", () => '{"messages":[],"tools":null}\n', /is a conversation.*`agl export all`/],
    ["an empty file", () => "\n", /holds no line to import\n.*agl export all/],
    [
      "a status that does not exist",
      () => linesOfKind["rollout"]!.replace("succeeded", "done"),
      /line 1: rollout: field status: Expected .*"succeeded".* but it is "done"/,
    ],
    [
      "a member that is missing",
      () => wrapped("span", { ...span(), trace_id: undefined }),
      /line 1: span: field trace_id: is missing/,
    ],
    [
      "a number that is none",
      () => wrapped("span", { ...span(), sequence_id: 1.5 }),
      /line 1: span: field sequence_id: Input should be an integer.*, not 1\.5/,
    ],
    [
      "an attempt of nothing",
      () => linesOfKind["attempt"]!,
      /line 1: Rollout ro-\w+ not found: neither in the/,
    ],
    [
      "a span of an attempt that comes later",
      () => linesOfKind["rollout"]! + linesOfKind["span"]! + linesOfKind["attempt"]!,
      /line 2: Attempt at-\w+ not found in rollout ro-\w+: neither in the store nor in an earlier line/,
    ],
    [
      "two attempts of one number",
      () => parents() + linesOfKind["attempt"]!.replace(/at-\w+/, "at-other"),
      /line 3: attempt at-other of rollout ro-\w+ is number 1, as at-\w+ is in the store/,
    ],
    [
      "the same id with other content",
      () => parents() + linesOfKind["span"]! + wrapped("span", { ...span(), name: "other" }),
      /line 4: span \w+ of attempt .* is in the store with another name: .+ there, other here/,
    ],
    [
      "several at once",
      () => `{\n${parents()}[]\n`,
      /line 1: is not JSON[^]*line 4: expected a JSON object[^]*nothing was imported/,
    ],
  ];
  test.each(refusals)("%s", async (name, text, message) => {
    const db = `${name.replaceAll(" ", "-")}.db`;
    const { code, out, err } = await importText(text(), db);
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err).toMatch(message);
    expect(err).not.toContain("    at ");
    expect(existsSync(join(folder, db))).toBe(false);
  });

  test("bytes that are no text", async () => {
    writeFileSync(join(folder, "latin.jsonl"), Buffer.from('{"span":"\xe9"}\n', "latin1"));
    const { code, err } = await agl("import", "latin.jsonl", "--db", "latin.db");
    expect(code).toBe(2);
    expect(err).toMatch(/latin\.jsonl, line 1: is not UTF-8 text/);
  });

  test("a store that was there is as it was", async () => {
    await importText(whole, "kept.db");
    const changed = linesOfKind["rollout"]!.replace("succeeded", "failed");
    const fresh = linesOfKind["rollout"]!.replace(/ro-\w+/, "ro-new");
    const { code, err } = await importText(fresh + changed, "kept.db");
    expect(code).toBe(2);
    expect(err).toMatch(
      /line 2: rollout ro-\w+ is in the store with another status: succeeded there, failed here/,
    );
    expect((await agl("export", "all", "--db", "kept.db")).out).toBe(whole);
  });

  test("a file that cannot grow says so, and is as it was", async () => {
    await importText(whole, "full.db");
    const rollout = JSON.parse(linesOfKind["rollout"]!).rollout;
    const many = Array.from({ length: 3_000 }, (_, index) =>
      wrapped("rollout", { ...rollout, rollout_id: `ro-${index}`, input: "x".repeat(1_000) }),
    );
    writeFileSync(join(folder, "many.jsonl"), many.join(""));
    const command = selfCommand(["import", "many.jsonl", "--db", "full.db"]).map((part) => `'${part}'`);
    const limited = `ulimit -f 1000; exec ${command.join(" ")}`;
    const child = Bun.spawn(["bash", "-c", limited], { cwd: folder, stdout: "pipe", stderr: "pipe" });
    expect(await new Response(child.stderr).text()).toMatch(
      /full\.db could not be written: .*\n.*check the free space.*nothing was imported/,
    );
    expect(await child.exited).toBe(1);
    expect((await agl("export", "all", "--db", "full.db")).out).toBe(whole);
    expect((await agl("import", "many.jsonl", "--db", "full.db")).code).toBe(0);
  });

  test("an interrupted one leaves nothing", async () => {
    const [command, ...args] = selfCommand(["import", "-", "--db", "interrupted.db"]);
    const child = Bun.spawn([command!, ...args], {
      cwd: folder,
      stdin: "pipe",
      stdout: "pipe",
      stderr: "pipe",
    });
    child.stdin.write(whole);
    await child.stdin.flush();
    while (!existsSync(join(folder, "interrupted.db-wal"))) await Bun.sleep(5);
    child.kill("SIGINT");
    expect(await child.exited).toBe(130);
    expect(readdirSync(folder).filter((name) => name.startsWith("interrupted.db"))).toEqual([]);
  });
});

describe("refused with what to do", () => {
  test("a store that another process holds", async () => {
    const held = join(run.path, "store.db");
    writeFileSync(join(folder, "whole.jsonl"), whole);
    const { code, err } = await agl("import", "whole.jsonl", "--db", held);
    expect(code).toBe(1);
    expect(err).toMatch(new RegExp(`in use by process ${process.pid}\n.*stop that process`));
  });

  const refusals: [string, string[], RegExp][] = [
    ["no store named", ["x.jsonl"], /required option '--db <file>'/],
    ["a store that keeps nothing", ["x.jsonl", "--db", ":memory:"], /--db is :memory:/],
    ["a file that is not there", ["none.jsonl", "--db", "new.db"], /none\.jsonl: there is no such file/],
    ["a folder", [".", "--db", "new.db"], /^error: \.: is a folder\n {2}name a file of JSON lines/],
  ];
  test.each(refusals)("%s", async (_, args, message) => {
    const { code, err } = await agl("import", ...args);
    expect(code).toBe(2);
    expect(err).toMatch(message);
    expect(existsSync(join(folder, "new.db"))).toBe(false);
  });
});
