import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { startRecordedRun, type RecordedRollout } from "../helpers/recorded-run.ts";
import { runAgl } from "../helpers/run-agl.ts";
import { startRunners } from "../helpers/runners-fixture.ts";
import { sampleSpan } from "../helpers/sample-span.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const folder = temporaryFolder();
let run: Awaited<ReturnType<typeof startRecordedRun>>;
let good: RecordedRollout;

beforeAll(async () => {
  run = await startRecordedRun(folder);
  good = await run.record({ question: "12*7", exact: 1 }, { reward: 0.5 });
});

afterAll(() => run.close());

const agl = (...args: string[]) => runAgl(["show", ...args], folder);

test("a rollout is told in order: calls, tools, rewards, and the row of each call", async () => {
  const { code, out } = await agl(good.rolloutId);
  expect(code).toBe(0);
  const told = out
    .replace(/\d+\.?\d* s\b/g, "N s")
    .trimEnd()
    .split("\n");
  expect(told).toEqual([
    `rollout ${good.rolloutId}  succeeded  train  N s`,
    `  task      {"question":"12*7","exact":1}`,
    "",
    `attempt ${good.attemptId} (number 1)  succeeded  N s`,
    "  1 call    version_0, 3 + 2 tokens, N s, stop",
    "        [1 before] user: What is 12*7?",
    "        → Answer 0",
    "        row of 5 ids, 2 of them learned; exact; reward 0.5, from a later call",
    `  2 tool    calculate {"expression":"12*7"}  N s`,
    "        = 84",
    "  3 call    version_0, 3 + 2 tokens, N s, stop",
    "        [1 before] user: So?",
    "        → Answer 1",
    "        row of 5 ids, 2 of them learned; exact; reward 0.5, its own",
    "  4 reward  0.5",
  ]);
});

test("as JSON, with the values as they are stored", async () => {
  const { out } = await agl(good.rolloutId, "--json");
  const { rollout, attempts } = JSON.parse(out);
  expect(rollout.input).toEqual({ question: "12*7", exact: 1 });
  expect(attempts).toHaveLength(1);
  expect(attempts[0].events.map(({ kind }: { kind: string }) => kind)).toEqual([
    "call",
    "tool",
    "call",
    "reward",
  ]);
  expect(attempts[0].events[0]).toMatchObject({
    exact: true,
    row: { tokens: 5, labels: 2, reward: 0.5 },
    left_out: null,
    response_id: "chatcmpl-0",
  });
});

describe("ids", () => {
  test("a unique beginning is enough, with or without its kind, and an attempt's id shows that attempt", async () => {
    for (const id of [good.rolloutId.slice(0, 9), good.rolloutId.slice(3, 9), good.attemptId.slice(0, 8)]) {
      expect((await agl(id)).out).toStartWith(`rollout ${good.rolloutId}`);
    }
  });

  test("an ambiguous beginning names those that it fits", async () => {
    const other = await run.record("another");
    const { code, err } = await agl("ro-");
    expect(code).toBe(2);
    expect(err).toContain(`2 ids begin with ro-: ${good.rolloutId}, ${other.rolloutId}`);
  });

  test("an unknown one is refused with the nearest", async () => {
    const slip = `${good.rolloutId.slice(0, -1)}x`;
    const { code, out, err } = await agl(slip);
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err).toMatch(
      new RegExp(`no rollout or attempt "${slip}"\\n  the nearest ids are ${good.rolloutId}`),
    );
  });
});

test("a call that becomes no row says why, and no line is wider than 80 columns or moves the cursor", async () => {
  const { rollout_id, attempt } = await run.store.startRollout({ input: "wide ".repeat(100) });
  const url = `/rollout/${rollout_id}/attempt/${attempt.attempt_id}/v1/chat/completions`;
  await run.ask(url, `${"long ".repeat(300)}日本語${"字".repeat(200)}\u001b[2J`);
  await run.store.updateAttempt(rollout_id, attempt.attempt_id, { status: "succeeded" });
  const { out } = await agl(rollout_id);
  expect(out).toContain("no row: no_reward");
  expect(out).not.toContain("\u001b");
  expect(out).toContain("\\x1b[2J");
  expect(Math.max(...out.split("\n").map((line) => Bun.stringWidth(line)))).toBeLessThanOrEqual(80);
});

test("O23: an agent that writes 200 lines and throws is explained by its rollout's id, also after a restart", async () => {
  const other = temporaryFolder();
  const storeFile = join(other, "store.db");
  let rolloutId: string;
  {
    await using runners = await startRunners({ storeFile });
    rolloutId = await runners.enqueue({ do: "throw" });
    await runners.ended(rolloutId);
    const live = await runAgl(["show", rolloutId, "--store", runners.storeUrl], other);
    expect(live.out).toContain("TypeError: no such thing");
  }
  const { code, out, err } = await runAgl(["show", rolloutId, "--db", storeFile], other);
  expect({ code, err }).toEqual({ code: 0, err: "" });
  expect(out).toMatch(/attempt at-\w+ \(number 1\)  failed/);
  expect(out).toContain("no call of a model was recorded");
  expect(out).toMatch(/error {3}TypeError: no such thing\n +at run/);
  expect(out).toContain("failed: agent_error: TypeError: no such thing");
  const lines = out.split("\n").filter((line) => /^ {4}line \d+$/.test(line));
  expect(lines.at(-1)).toBe("    line 200");
  expect(lines).toHaveLength(20);
});

test("of a rollout with two attempts, only the latest makes rows", async () => {
  const { rollout_id, attempt } = await run.store.startRollout({ input: "twice" });
  const url = (id: string) => `/rollout/${rollout_id}/attempt/${id}/v1/chat/completions`;
  await run.ask(url(attempt.attempt_id), "first");
  await run.store.updateAttempt(rollout_id, attempt.attempt_id, { status: "failed" });
  const second = await run.store.startAttempt(rollout_id);
  await run.ask(url(second.attempt.attempt_id), "second");
  await run.reward(rollout_id, second.attempt.attempt_id, 1);
  await run.store.updateAttempt(rollout_id, second.attempt.attempt_id, { status: "succeeded" });
  const { out } = await agl(rollout_id);
  expect(out).toContain("no row: attempt_not_latest");
  expect(out).toContain("row of 5 ids");
  const only = await agl(attempt.attempt_id);
  expect(only.out).toContain("(number 1)");
  expect(only.out).not.toContain("(number 2)");
});

test("calls that a tracer recorded are told, too, and are rows for its adapter", async () => {
  const { rollout_id, attempt } = await run.store.startRollout({ input: "traced" });
  const { attempt_id } = attempt;
  await run.store.addSpan(
    sampleSpan({
      rollout_id,
      attempt_id,
      name: "openai.chat.completion",
      start_time: 0.25,
      end_time: 0.5,
      attributes: {
        "gen_ai.request.model": "agent-model",
        "gen_ai.response.id": "chatcmpl-traced",
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "What is 12*7?",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": "84",
        "gen_ai.usage.prompt_tokens": 2,
        "gen_ai.usage.completion_tokens": 1,
        prompt_token_ids: [1, 2],
        response_token_ids: [3],
      },
    }),
  );
  await run.store.nextSequenceId(rollout_id, attempt_id);
  await run.reward(rollout_id, attempt_id, 1);
  await run.store.updateAttempt(rollout_id, attempt_id, { status: "succeeded" });
  const traced = (await agl(rollout_id, "--adapter", "tracer")).out;
  expect(traced).toContain("call    agent-model, 2 + 1 tokens");
  expect(traced).toContain("user: What is 12*7?");
  expect(traced).toContain("→ 84");
  expect(traced).toContain("row of 3 ids, 1 of them learned; exact; reward 1");
  expect((await agl(rollout_id)).out).toContain("no row: not_through_proxy");
});

test("a call that a tracer and the proxy both saw is told once, and one of another tracer in its own words", async () => {
  const { rollout_id, attempt } = await run.store.startRollout({ input: "both" });
  const { attempt_id } = attempt;
  await run.ask(`/rollout/${rollout_id}/attempt/${attempt_id}/v1/chat/completions`, "Both?");
  const { items } = await run.store.querySpans({ rollout_id, name: "raw_gen_ai_request" });
  const genAi = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "agent-model",
    "gen_ai.usage.input_tokens": 7,
    "gen_ai.usage.output_tokens": 2,
    "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"Only here?"}]}]',
    "gen_ai.output.messages":
      '[{"role":"assistant","parts":[{"type":"text","content":"Yes"}],"finish_reason":"stop"}]',
  };
  const traced = (responseId: string, sequence_id: number) =>
    run.store.addSpan(
      sampleSpan({
        rollout_id,
        attempt_id,
        sequence_id,
        name: "chat agent-model",
        attributes: { ...genAi, "gen_ai.response.id": responseId },
      }),
    );
  await traced(String(items[0]?.attributes["gen_ai.response.id"]), 2);
  await traced("elsewhere", 3);
  await run.store.updateAttempt(rollout_id, attempt_id, { status: "succeeded" });
  const { out } = await agl(rollout_id);
  const [, first, second, ...none] = out.split(/^ +\d+ call /m);
  expect(none).toEqual([]);
  expect(first).toContain("user: Both?");
  expect(second).toContain("agent-model, 7 + 2 tokens, 0.75 s, stop");
  expect(second).toContain("user: Only here?");
  expect(second).toContain("→ Yes");
  expect(second).toContain("no row: not_through_proxy");
});
