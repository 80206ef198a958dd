import { afterAll, beforeAll, expect, test } from "bun:test";
import { adaptMessages } from "../../src/adapter/messages-adapter.ts";
import { adaptProxySpans } from "../../src/adapter/proxy-adapter.ts";
import { adaptTracerSpans } from "../../src/adapter/tracer-adapter.ts";
import { rowsOfRollout } from "../../src/inspect/rollout-rows.ts";
import { tellStory } from "../../src/inspect/story.ts";
import { rewardSpan } from "../../src/runner/attempt-spans.ts";
import type { AttemptedRollout, Span } from "../../src/protocol/types.ts";
import { openStore, type SqliteStore } from "../../src/store/sqlite-store.ts";
import { type FakeAnswer, type FakeRequest, replyAs } from "../helpers/fake-vllm.ts";
import { type ProxyFixture, startProxyFixture } from "../helpers/proxy-fixture.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

/** One attempt of an agent that uses every route that is recorded, one after another. */
const steps = [
  {
    path: "/chat/completions",
    body: { messages: [{ role: "user", content: "One?" }], n: 2 },
    words: ["One?", "Answer 0"],
  },
  { path: "/completions", body: { prompt: "Two" }, words: null },
  {
    path: "/completions",
    body: { prompt: "Three", n: 2, stream: true },
    words: null,
  },
  {
    path: "/messages",
    body: { max_tokens: 32, system: "Be brief.", messages: [{ role: "user", content: "Four?" }] },
    words: ["Be brief.", "Four?", "Answer 3"],
  },
  {
    path: "/responses",
    body: { input: "Five?", instructions: "Be kind." },
    words: ["Be kind.", "Five?", "Answer 4"],
  },
  { path: "/responses", body: { input: "Six?", stream: true }, words: ["Six?", "Answer 5"] },
  // Translated by the server only: its answer has no ids.
  {
    path: "/messages",
    body: { max_tokens: 32, thinking: { type: "disabled" }, messages: [{ role: "user", content: "Seven?" }] },
    words: ["Seven?", "Answer 6"],
  },
  {
    path: "/chat/completions",
    body: { messages: [{ role: "user", content: "Eight?" }], stream: true },
    words: ["Eight?", "Answer 7"],
  },
];
const idsOf = (index: number) => ({ prompt: [1, 2, index], response: [10, index, 2] });
const withoutIds = 6;

let store: SqliteStore;
let fixture: ProxyFixture;
let rollout: AttemptedRollout;
let spans: Span[];

function script(request: FakeRequest, index: number): FakeAnswer {
  const { prompt, response } = idsOf(index);
  const text = `Answer ${index}`;
  if (request.path === "/v1/responses") return responseReply(request, index, text);
  if (request.path === "/v1/messages") {
    const usage = { input_tokens: 3, output_tokens: 3 };
    const content = [{ type: "text", text }];
    const message = {
      id: `msg-${index}`,
      type: "message",
      role: "assistant",
      content,
      stop_reason: "end_turn",
      usage,
    };
    return { parts: [JSON.stringify({ ...message, model: request.body.model })] };
  }
  const pieces = [
    { text, token_ids: response.slice(0, 2) },
    { text: "", token_ids: response.slice(2) },
  ];
  const answer = replyAs(request, { id: `cmpl-${index}`, prompt_token_ids: prompt, pieces });
  return request.body.n === 2 ? withSecondChoice(answer) : answer;
}

/** The other choice says something else, and comes first in a stream. */
function withSecondChoice({ parts, ...answer }: FakeAnswer): FakeAnswer {
  const texts = parts as string[];
  const bodies = texts
    .filter((text) => !text.includes("[DONE]"))
    .map((text) => JSON.parse(text.replace("data: ", "")));
  for (const { usage } of bodies) if (usage) usage.completion_tokens += 1;
  const [first] = bodies;
  const other = { ...first.choices[0], index: 1, token_ids: [77], finish_reason: "length" };
  if ("text" in other) other.text = "Another";
  else other.message = { role: "assistant", content: "Another" };
  if (bodies.length === 1) {
    first.choices = [first.choices[0], other];
    return { ...answer, parts: [JSON.stringify(first)] };
  }
  const chunks = [{ ...first, choices: [other] }, ...bodies];
  return {
    ...answer,
    parts: [...chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`), "data: [DONE]\n\n"],
  };
}

function responseReply({ body }: FakeRequest, index: number, text: string): FakeAnswer {
  const { prompt, response } = idsOf(index);
  const raw = (tokens: number[]) => [{ message: "<text>", tokens, type: "raw_message_tokens" }];
  const answer = {
    id: `resp-${index}`,
    object: "response",
    created_at: 1767000000,
    model: body.model,
    status: "completed",
    output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text }] }],
    usage: { input_tokens: 3, output_tokens: 3, total_tokens: 6 },
    input_messages: raw(prompt),
    output_messages: raw(response),
  };
  if (body.stream !== true) return { parts: [JSON.stringify(answer)] };
  const event = { response: answer, sequence_number: 1, type: "response.completed" };
  return {
    headers: { "content-type": "text/event-stream" },
    parts: [`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`],
  };
}

beforeAll(async () => {
  store = openStore({ path: `${temporaryFolder()}/store.db` });
  fixture = startProxyFixture(script, { store });
  rollout = await store.startRollout({ input: "x", mode: "train" });
  const { rollout_id, attempt } = rollout;
  const base = `/rollout/${rollout_id}/attempt/${attempt.attempt_id}/v1`;
  for (const { path, body } of steps) {
    const answer = await fetch(fixture.server.url + base + path, {
      method: "POST",
      body: JSON.stringify({ model: "agent-model", ...body }),
    });
    expect(answer.status).toBe(200);
    await answer.text();
  }
  await fixture.proxy.flush(5_000);
  const sequenceId = await store.nextSequenceId(rollout_id, attempt.attempt_id);
  const frame = { rolloutId: rollout_id, attemptId: attempt.attempt_id, traceId: "0".repeat(32) };
  await store.addSpan(rewardSpan(frame, sequenceId, 1, 1));
  await store.updateAttempt(rollout_id, attempt.attempt_id, { status: "succeeded" });
  rollout = (await store.getRollout(rollout_id)) as AttemptedRollout;
  spans = (await store.querySpans({ rollout_id })).items;
});

afterAll(async () => {
  await fixture.stop();
  await store.close();
});

test("calls of every route are exact triplets in order, of several choices the first", () => {
  const { triplets, dropped, unassignedRewards } = adaptProxySpans(spans);
  expect([dropped, unassignedRewards]).toEqual([[], []]);
  expect(triplets.map(({ prompt, response }) => [prompt.token_ids, response.token_ids])).toEqual(
    steps.map((_, index) => (index === withoutIds ? [[], []] : [idsOf(index).prompt, idsOf(index).response])),
  );
  expect(triplets.map(({ metadata }) => metadata.reason)).toEqual(
    steps.map((_, index) => (index === withoutIds ? "no_prompt_token_ids" : null)),
  );
  expect(triplets.map(({ reward }) => reward)).toEqual([...steps.slice(1).map(() => null), 1]);
});

test("each knows its end and its checkpoint, whatever the route calls them", () => {
  for (const { metadata } of adaptProxySpans(spans).triplets) {
    expect(metadata).toMatchObject({ checkpoint: "version_0", finish_reason: "stop" });
  }
});

test("rows of every route, each other call with its reason", () => {
  const { rows, leftOut } = rowsOfRollout(rollout, spans, { rule: "above-mean" });
  expect(rows.map(({ row }) => row.input_ids)).toEqual(
    steps.flatMap((_, index) =>
      index === withoutIds ? [] : [[...idsOf(index).prompt, ...idsOf(index).response]],
    ),
  );
  expect(leftOut.map(({ reason }) => reason)).toEqual(["no_prompt_token_ids"]);
});

test("chats of every route are conversations, text completions say that they are none", () => {
  const { calls, dropped } = adaptMessages(spans);
  expect(calls.map(({ messages }) => messages.map(({ content }) => content))).toEqual(
    steps.map(({ words }) => words).filter((words) => words !== null),
  );
  for (const { messages, checkpoint, finish_reason } of calls) {
    expect(messages.at(-1)?.role).toBe("assistant");
    expect({ checkpoint, finish_reason }).toEqual({ checkpoint: "version_0", finish_reason: "stop" });
  }
  expect(dropped.map(({ reason }) => reason)).toEqual(["not_a_chat", "not_a_chat"]);
});

test("the tracer's adapter, which saw none of them, says so of each", () => {
  const { triplets, dropped } = adaptTracerSpans(spans);
  expect(triplets).toEqual([]);
  expect(dropped.map(({ reason }) => reason)).toEqual(steps.map(() => "not_traced"));
});

test("the story shows each call once, with its words, its counts and its row", async () => {
  const { attempts } = await tellStory(store, rollout, { attemptId: null, rule: "above-mean" });
  const calls = attempts[0]?.events.filter((event) => event.kind === "call") ?? [];
  const prompts = ["One?", "Two", "Three", "Four?", "Five?", "Six?", "Seven?", "Eight?"];
  expect(calls.map(({ messages }) => messages.at(-1)?.content)).toEqual(prompts);
  for (const [index, call] of calls.entries()) {
    expect(call).toMatchObject({
      model: "models/version_0",
      answer: `Answer ${index}`,
      finish_reason: "stop",
      prompt_tokens: 3,
      error: null,
      exact: index !== withoutIds,
      left_out: index === withoutIds ? "no_prompt_token_ids" : null,
    });
    expect(call.row?.tokens).toBe(index === withoutIds ? undefined : 6);
  }
});
