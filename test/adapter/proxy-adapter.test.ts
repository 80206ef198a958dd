import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { adaptProxySpans } from "../../src/adapter/proxy-adapter.ts";
import { rewardAttributes } from "../../src/protocol/reward-attributes.ts";
import type { Attributes, Span } from "../../src/protocol/types.ts";

let nextSpan = 0;
function span(name: string, sequence_id: number, attributes: object, changes: Partial<Span> = {}): Span {
  return {
    rollout_id: "ro-1",
    attempt_id: "at-1",
    sequence_id,
    trace_id: "t",
    span_id: `s${(nextSpan += 1)}`,
    parent_id: null,
    name,
    status: { status_code: "OK", description: null },
    attributes: attributes as Attributes,
    events: [],
    links: [],
    start_time: sequence_id,
    end_time: sequence_id + 0.5,
    context: null,
    parent: null,
    resource: { attributes: {}, schema_url: "" },
    ...changes,
  };
}

const call = (id: string, at: number, changes: object = {}, spanChanges: Partial<Span> = {}) =>
  span(
    "raw_gen_ai_request",
    at,
    {
      "llm.hosted_vllm.id": id,
      "llm.hosted_vllm.prompt_token_ids": `[1, ${at}]`,
      "llm.hosted_vllm.response_token_ids": `[[2, ${at}]]`,
      ...changes,
    },
    spanChanges,
  );
const reward = (value: number, at: number) =>
  span("agentlightning.annotation", at, rewardAttributes(value), { start_time: null });
const without = (key: string) => ({ [`llm.hosted_vllm.${key}`]: undefined });

function rewardsOf(spans: Span[]): (number | null)[] {
  return adaptProxySpans(spans).triplets.map((triplet) => triplet.reward);
}

// 4.1, T45
describe("rewards find their calls", () => {
  test.each<[string, Span[], (number | null)[]]>([
    ["C1@1, C2@4, R(0)@6", [call("C1", 1), call("C2", 4), reward(0, 6)], [null, 0]],
    [
      "C1@1, C2@2, R(.25)@3, R(1)@4: later rewards fall back to earlier calls",
      [call("C1", 1), call("C2", 2), reward(0.25, 3), reward(1, 4)],
      [1, 0.25],
    ],
    ["R(1)@1, C1@2, R(2)@2, R(3.5)@3", [reward(1, 1), call("C1", 2), reward(2, 2), reward(3.5, 3)], [3.5]],
    [
      "C1@2, C2@4, C3@6, R(.1)@5, R(.2)@7, R(.3)@8",
      [call("C1", 2), call("C2", 4), call("C3", 6), reward(0.1, 5), reward(0.2, 7), reward(0.3, 8)],
      [0.3, 0.1, 0.2],
    ],
    ["C1@1 twice, R(1)@3", [call("C1", 1), call("C1", 1), reward(1, 3)], [1]],
    ["C1@1, R(.1)@2, R(.2)@3", [call("C1", 1), reward(0.1, 2), reward(0.2, 3)], [0.1]],
    ["a call without ids, normalised span only", [span("litellm_request", 1, {}), reward(1, 2)], []],
    ["nothing", [], []],
  ])("%s", (_, spans, expected) => {
    expect(rewardsOf(spans)).toEqual(expected);
  });

  test("rewards that no call takes are listed", () => {
    const adapted = adaptProxySpans([reward(1, 1), call("C1", 2), reward(2, 3), reward(3, 4)]);
    expect(adapted.unassignedRewards).toEqual([
      { sequence_id: 1, value: 1 },
      { sequence_id: 4, value: 3 },
    ]);
  });

  test("the order of the spans, a null time and reward spans of other names make no difference", () => {
    const spans = [
      call("C1", 2),
      call("C2", 4),
      call("C3", 6),
      reward(0.1, 5),
      reward(0.2, 7),
      reward(0.3, 8),
    ];
    fc.assert(
      fc.property(fc.shuffledSubarray(spans, { minLength: spans.length }), (shuffled) => {
        expect(rewardsOf(shuffled)).toEqual([0.3, 0.1, 0.2]);
      }),
    );
  });

  test("each reward goes to the latest call before it that has none", () => {
    const event = fc.record({ isCall: fc.boolean(), at: fc.integer({ min: 1, max: 12 }) });
    fc.assert(
      fc.property(fc.array(event, { maxLength: 16 }), (events) => {
        const spans = events.map(({ isCall, at }, index) =>
          isCall ? call(`C${index}`, at) : reward(index, at),
        );
        const ordered = spans.toSorted((one, other) => one.sequence_id - other.sequence_id);
        const calls = ordered.filter(({ name }) => name === "raw_gen_ai_request");
        const expected = new Map<Span, number>();
        for (const rewarded of ordered.filter(({ name }) => name !== "raw_gen_ai_request")) {
          const free = calls.filter((item) => !expected.has(item) && item.sequence_id < rewarded.sequence_id);
          const latest = free.at(-1);
          if (latest !== undefined)
            expected.set(latest, rewarded.attributes["agentlightning.reward.0.value"] as number);
        }
        const { triplets, unassignedRewards } = adaptProxySpans(spans);
        const sequences = triplets.map(({ metadata, reward: value }) => [metadata.sequence_id, value]);
        const modelled = calls.map((item) => [item.sequence_id, expected.get(item) ?? null]);
        const byPosition = (rows: (number | null)[][]) => rows.map((row) => JSON.stringify(row)).sort();
        expect(byPosition(sequences)).toEqual(byPosition(modelled));
        const given = triplets.filter((triplet) => triplet.reward !== null).length;
        expect(given + unassignedRewards.length).toBe(events.filter(({ isCall }) => !isCall).length);
      }),
    );
  });
});

// 1.15, T2, T3, T51, T52
describe("ids are read however they were written", () => {
  const ids = (spans: Span[]) =>
    adaptProxySpans(spans).triplets.map(({ prompt, response }) => [prompt.token_ids, response.token_ids]);

  test.each<[string, object, number[]]>([
    ["nested text", {}, [2, 1]],
    ["flat text", { "llm.hosted_vllm.response_token_ids": "[7, 8]" }, [7, 8]],
    ["native flat list", { "llm.hosted_vllm.response_token_ids": [7, 8] }, [7, 8]],
    ["a Python tuple", { "llm.hosted_vllm.response_token_ids": "([7, 8],)" }, [7, 8]],
    [
      "choices as a Python literal",
      {
        ...without("response_token_ids"),
        "llm.hosted_vllm.choices": "[{'index': 0, 'logprobs': None, 'token_ids': [7, 8]}]",
      },
      [7, 8],
    ],
    [
      "choices as JSON with null",
      {
        ...without("response_token_ids"),
        "llm.hosted_vllm.choices": '[{"logprobs":null,"token_ids":[7,8]}]',
      },
      [7, 8],
    ],
    [
      "LiteLLM's place",
      {
        ...without("response_token_ids"),
        "llm.hosted_vllm.choices": "[{'provider_specific_fields': {'token_ids': [7, 8]}}]",
      },
      [7, 8],
    ],
    ["two choices: the first", { "llm.hosted_vllm.response_token_ids": "[[7, 8], [9]]" }, [7, 8]],
  ])("%s", (_, attributes, expected) => {
    expect(ids([call("C", 1, attributes)])).toEqual([[[1, 1], expected]]);
  });

  test("another provider, and the normalised span with native lists", () => {
    expect(
      ids([
        span("raw_gen_ai_request", 1, {
          "llm.openai.id": "a",
          "llm.openai.prompt_token_ids": "[1]",
          "llm.openai.response_token_ids": "[[2]]",
        }),
        span("litellm_request", 2, {
          "gen_ai.response.id": "b",
          prompt_token_ids: [3],
          response_token_ids: [4],
        }),
      ]),
    ).toEqual([
      [[1], [2]],
      [[3], [4]],
    ]);
  });

  test.each<[string, object, string]>([
    ["booleans", { "llm.hosted_vllm.prompt_token_ids": "[True, 1]" }, "no_prompt_token_ids"],
    ["fractions", { "llm.hosted_vllm.response_token_ids": "[[1.5]]" }, "no_response_token_ids"],
    ["negatives", { "llm.hosted_vllm.prompt_token_ids": "[-1]" }, "no_prompt_token_ids"],
    ["garbage", { "llm.hosted_vllm.prompt_token_ids": "[1, 2" }, "no_prompt_token_ids"],
    ["nothing", without("response_token_ids"), "no_response_token_ids"],
    [
      "other counts in usage",
      { "llm.hosted_vllm.usage": "{'completion_tokens': 3}" },
      "response_count_mismatch",
    ],
    ["another prompt count", { "llm.hosted_vllm.usage": "{'prompt_tokens': 3}" }, "prompt_count_mismatch"],
    ["marked", { "agl.call.token_exact": false, "agl.call.inexact_reason": "no_usage" }, "no_usage"],
  ])("%s: kept with its reward, without ids", (_, attributes, reason) => {
    const { triplets, dropped } = adaptProxySpans([call("C", 1, attributes), reward(1, 2)]);
    expect(triplets).toMatchObject([
      {
        prompt: { token_ids: [] },
        response: { token_ids: [] },
        reward: 1,
        metadata: { exact: false, reason },
      },
    ]);
    expect(dropped).toEqual([]);
  });
});

// T14
describe("calls the agent never used take no reward", () => {
  test.each<[string, Span, string]>([
    ["aborted", call("C2", 2, { "agl.call.aborted_by_client": true }), "aborted_by_client"],
    ["stale", call("C2", 2, { "agl.call.stale": true }), "stale"],
    [
      "failed",
      span("litellm_request", 2, {}, { status: { status_code: "ERROR", description: "500" } }),
      "failed",
    ],
  ])("%s", (_, unused, reason) => {
    const { triplets, dropped } = adaptProxySpans([call("C1", 1), unused, reward(1, 3)]);
    expect(triplets.map((triplet) => [triplet.metadata.response_id, triplet.reward])).toEqual([["C1", 1]]);
    expect(dropped.map((item) => [item.sequence_id, item.reason])).toEqual([[2, reason]]);
  });
});

// 4.1, T53
describe("one call is one triplet", () => {
  test("the normalised span beside the raw one says nothing new", () => {
    const twin = (id: object) => span("litellm_request", 1, id);
    for (const id of [{ "gen_ai.response.id": "C1" }, {}]) {
      const { triplets, dropped } = adaptProxySpans([twin(id), call("C1", 1)]);
      expect([triplets.length, dropped]).toEqual([1, []]);
    }
  });

  test("a repeated response id counts once, the first; the other is a duplicate", () => {
    const { triplets, dropped } = adaptProxySpans([call("C1", 1), call("C1", 2)]);
    expect(triplets.map(({ metadata }) => metadata.sequence_id)).toEqual([1]);
    expect(dropped).toEqual([{ sequence_id: 2, response_id: "C1", reason: "duplicate" }]);
  });

  test("without response ids, calls are the same only with the same place and ids", () => {
    const anonymous = { "llm.hosted_vllm.id": "" };
    const { triplets } = adaptProxySpans([
      call("", 1, anonymous),
      call("", 1, anonymous),
      call("", 2, anonymous),
    ]);
    expect(triplets.map(({ metadata }) => metadata.sequence_id)).toEqual([1, 2]);
  });

  test("a triplet says where it comes from", () => {
    const { triplets } = adaptProxySpans([call("C1", 3, { "agl.call.checkpoint": "version_1" })]);
    expect(triplets[0]?.metadata).toMatchObject({
      response_id: "C1",
      sequence_id: 3,
      checkpoint: "version_1",
      exact: true,
    });
  });
});

test("no span makes reading throw", () => {
  const key = fc.oneof(
    fc.constantFrom(
      "llm.hosted_vllm.choices",
      "llm.hosted_vllm.prompt_token_ids",
      "llm.hosted_vllm.response_token_ids",
      "llm.hosted_vllm.usage",
      "gen_ai.response.id",
      "agentlightning.reward.0.value",
      "agentops.task.output",
    ),
    fc.string(),
  );
  const value = fc.oneof(
    fc.string(),
    fc.jsonValue(),
    fc.constantFrom("[[]]", "[{}]", "[None]", "{'a': 1}", NaN),
  );
  const name = fc.constantFrom("raw_gen_ai_request", "litellm_request", "agentlightning.annotation", "x");
  fc.assert(
    fc.property(fc.array(fc.tuple(name, fc.nat(5), fc.dictionary(key, value))), (rows) => {
      adaptProxySpans(rows.map(([spanName, at, attributes]) => span(spanName, at, attributes)));
    }),
  );
});
