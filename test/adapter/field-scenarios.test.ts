import { expect, test } from "bun:test";
import { adaptProxySpans } from "../../src/adapter/proxy-adapter.ts";
import { adaptTracerSpans } from "../../src/adapter/tracer-adapter.ts";
import { selectRows } from "../../src/algorithm/select.ts";
import { rowsOfRollout } from "../../src/inspect/rollout-rows.ts";
import type { Span } from "../../src/protocol/types.ts";
import { makeSpan, rewardSpan } from "../helpers/spans.ts";

const recorded = (prompt: number[], response: number[]) =>
  makeSpan("ro-1", "at-1", "raw_gen_ai_request", {
    "llm.hosted_vllm.prompt_token_ids": JSON.stringify(prompt),
    "llm.hosted_vllm.response_token_ids": JSON.stringify([response]),
  });
const traced = (prompt: number[], response: number[]) =>
  makeSpan("ro-1", "at-1", "openai.chat.completion", {
    prompt_token_ids: prompt,
    response_token_ids: response,
  });
const reward = (value: number) => rewardSpan("ro-1", "at-1", value);
const succeeded = { rollout_id: "ro-1", status: "succeeded" as const };
const rowsOf = (spans: Span[]) =>
  rowsOfRollout(succeeded, spans, { rule: "above-mean" }).rows.map(({ row }) => row);

const flavours = [
  ["proxy", recorded, adaptProxySpans],
  ["tracer", traced, adaptTracerSpans],
] as const;

// O18
test("a rollout without calls, or with calls of another address, is one without calls, and the latter are counted", () => {
  const elsewhere = [makeSpan("ro-2", "at-2", "chat m", { "gen_ai.operation.name": "chat" }), reward(1)];
  const selection = selectRows({
    rollouts: [
      { ...succeeded, ...adaptProxySpans([reward(1)]) },
      { ...succeeded, rollout_id: "ro-2", ...adaptProxySpans(elsewhere) },
      { ...succeeded, rollout_id: "ro-3", ...adaptProxySpans([recorded([1], [2]), reward(1)]) },
    ],
    rule: "above-mean",
    fraction: 1,
    maxLength: 100,
    seed: 0,
  });
  expect(selection).toMatchObject({
    rolloutsWithoutCalls: ["ro-1", "ro-2"],
    rewardsWithoutCall: 2,
    dropped: { not_through_proxy: 1, rewards_all_equal: 1 },
  });
});

// O19
test.each(flavours)("which call gets which reward: %s", (_, call, adapt) => {
  const calls = (...steps: (number | null)[]) => {
    const spans = steps.map((step, index) => (step === null ? call([index], [index]) : reward(step)));
    const { triplets } = adapt(spans);
    const adapter = () => adapt(spans);
    const { rows } = rowsOfRollout(succeeded, spans, { rule: "above-mean", adapter });
    return { own: triplets.map((triplet) => triplet.reward), rows: rows.map(({ row }) => row.reward) };
  };
  expect(calls(null, null, 0.2, null, null, 1)).toEqual({
    own: [null, 0.2, null, 1],
    rows: [0.2, 0.2, 1, 1],
  });
  // T20: without saying which is final, a second reward after the last call goes to the one before it.
  expect(calls(null, null, null, 0.5, 1)).toEqual({ own: [null, 1, 0.5], rows: [1, 1, 0.5] });
});

// O25
test("a turn whose prompt does not begin with the turn before is a row of its own, ids untouched", () => {
  const [system, question, thought, answer, next] = [[1, 2], [3, 4], [900, 901], [5], [6]];
  const turns: [number[], number[]][] = [
    [
      [...system, ...question],
      [...thought, ...answer],
    ],
    // The agent left the thought out.
    [
      [...system, ...question, ...answer, ...next],
      [...thought, 7],
    ],
    // The template spelt the answer with other ids.
    [[...system, ...question, 55, ...next, 7, 8], [9]],
  ];
  const rows = rowsOf([...turns.map(([prompt, response]) => recorded(prompt, response)), reward(1)]);
  expect(rows.map(({ input_ids }) => input_ids)).toEqual(
    turns.map(([prompt, response]) => [...prompt, ...response]),
  );
  expect(rows.map(({ labels }) => labels.filter((label) => label !== -100))).toEqual(
    turns.map(([, response]) => response),
  );
});

// O26
test("samples that look alike are seen by how few different answers they have", () => {
  const rollout = (id: number, response: number[], value: number) => ({
    ...succeeded,
    rollout_id: `ro-${id}`,
    ...adaptProxySpans([recorded([1], response), reward(value)]),
  });
  const select = (rollouts: ReturnType<typeof rollout>[]) =>
    selectRows({ rollouts, rule: "above-mean", fraction: 1, maxLength: 100, seed: 0 });
  const alike = select(Array.from({ length: 8 }, (_, id) => rollout(id, [7, 8], 0.5)));
  expect(alike.candidates).toEqual({ rows: 8, distinctResponses: 1, meanReward: 0.5 });
  expect(alike.noUpdate).toStartWith("nothing separates the rewards");
  const varied = select(Array.from({ length: 8 }, (_, id) => rollout(id, [7, id % 4], id)));
  expect(varied.candidates.distinctResponses).toBe(4);
});
