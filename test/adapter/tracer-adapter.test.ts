import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { adaptProxySpans } from "../../src/adapter/proxy-adapter.ts";
import { rewardAttributes } from "../../src/protocol/reward-attributes.ts";
import { adaptTracerSpans, type TracerAdapterOptions } from "../../src/adapter/tracer-adapter.ts";
import type { Attributes, Span } from "../../src/protocol/types.ts";

type Changes = Partial<Omit<Span, "attributes">>;

const chat = "openai.chat.completion";
let nextSpan = 0;

function span(name: string, [start, end]: [number, number], attributes: object, changes: Changes = {}): Span {
  const number = (nextSpan += 1);
  return {
    rollout_id: "ro-1",
    attempt_id: "at-1",
    sequence_id: number,
    trace_id: "t",
    span_id: `s${number}`,
    parent_id: null,
    name,
    status: { status_code: "OK", description: null },
    attributes: attributes as Attributes,
    events: [],
    links: [],
    start_time: start,
    end_time: end,
    context: null,
    parent: null,
    resource: { attributes: {}, schema_url: "" },
    ...changes,
  };
}

/** The root span that most tracers write around everything. */
const session = (changes: Changes = {}) => span("session", [0, 100], {}, { span_id: "root", ...changes });
const under = (parent_id: string) => ({ parent_id });

function call(id: string | null, times: [number, number], more: object = {}, changes: Changes = {}): Span {
  const ids = { prompt_token_ids: [1, times[0]], response_token_ids: [2, times[0]] };
  const named = id === null ? {} : { "gen_ai.response.id": id };
  return span(chat, times, { ...named, ...ids, ...more }, { parent_id: "root", ...changes });
}

const reward = (value: number, at: number, changes: Changes = {}) =>
  span("agentlightning.annotation", [at, at], rewardAttributes(value), { parent_id: "root", ...changes });
const agent = (name: string, times: [number, number], changes: Changes = {}) =>
  span("agent", times, { "agent.name": name }, { parent_id: "root", ...changes });
const judge = (times: [number, number], changes: Changes = {}) =>
  span(
    "agentlightning.operation",
    times,
    { "agentlightning.operation.name": "agentlightning.reward" },
    { parent_id: "root", ...changes },
  );

function rewardsOf(spans: Span[], options: TracerAdapterOptions = {}): [string | null, number | null][] {
  return adaptTracerSpans(spans, options).triplets.map((triplet) => [
    triplet.metadata.response_id,
    triplet.reward,
  ]);
}

const reasonsOf = (spans: Span[], options: TracerAdapterOptions = {}) =>
  adaptTracerSpans(spans, options).dropped.map(({ response_id, reason }) => [response_id, reason]);

// 4.2, T45
describe("rewards find their calls", () => {
  test.each<[string, Span[], [string, number | null][]]>([
    ["one call 1-2, reward at 3", [session(), call("A", [1, 2]), reward(1, 3)], [["A", 1]]],
    [
      "call 1-5, reward at 3: it began too early",
      [session(), call("A", [1, 5]), reward(1, 3)],
      [["A", null]],
    ],
    ["call 1-3, reward at 3", [session(), call("A", [1, 3]), reward(1, 3)], [["A", 1]]],
    [
      "calls 1-2 and 3-4, rewards .2 at 5 and 1 at 6",
      [session(), call("A", [1, 2]), call("B", [3, 4]), reward(0.2, 5), reward(1, 6)],
      [
        ["A", 1],
        ["B", 0.2],
      ],
    ],
    [
      "a reward in another trace, with a root of its own",
      [session(), call("A", [1, 2]), reward(1, 3, { parent_id: null, trace_id: "other" })],
      [["A", 1]],
    ],
    [
      "spans without a root, as our own runners write them",
      [call("A", [1, 2], {}, { parent_id: null }), reward(0, 3, { parent_id: null })],
      [["A", 0]],
    ],
    ["a parent nobody sent", [call("A", [1, 2], {}, under("lost")), reward(1, 3, under("lost"))], [["A", 1]]],
  ])("%s", (_, spans, expected) => {
    expect(rewardsOf(spans)).toEqual(expected);
  });

  test("rewards that no call takes are listed", () => {
    const early = reward(0.5, 1);
    const { unassignedRewards } = adaptTracerSpans([session(), early, call("A", [2, 3]), reward(1, 4)]);
    expect(unassignedRewards).toEqual([{ sequence_id: early.sequence_id, value: 0.5 }]);
  });

  test("with first_sibling, only rewards beside a call and after it", () => {
    const inner = agent("inner", [1, 6], { span_id: "inner" });
    const spans = [
      session(),
      inner,
      call("A", [2, 3], {}, under("inner")),
      reward(0.25, 4, under("inner")),
      call("B", [7, 8]),
      reward(1, 9),
      reward(0.75, 10),
    ];
    expect(rewardsOf(spans, { rewardMatch: "first_sibling", repairHierarchy: false })).toEqual([
      ["A", 0.25],
      ["B", 1],
    ]);
    expect(rewardsOf(spans, { repairHierarchy: false })).toEqual([
      ["A", 0.25],
      ["B", 1],
    ]);
    const apart = [session(), inner, call("A", [2, 3], {}, under("inner")), reward(1, 9)];
    expect(rewardsOf(apart, { rewardMatch: "first_sibling", repairHierarchy: false })).toEqual([["A", null]]);
    expect(rewardsOf(apart, { repairHierarchy: false })).toEqual([["A", 1]]);
  });

  test("a final reward takes the place of the last one", () => {
    const spans = [session(), call("A", [1, 2]), call("B", [3, 4]), reward(0.2, 5)];
    expect(rewardsOf(spans, { finalReward: 0 })).toEqual([
      ["A", null],
      ["B", 0],
    ]);
  });
});

describe("which spans are calls", () => {
  const outer = { span_id: "outer" };

  test("an outer call and one inside with the same id, or without one, are one call", () => {
    const same = [session(), call("X", [1, 4], {}, outer), call("X", [2, 3], {}, under("outer"))];
    expect(rewardsOf(same)).toEqual([["X", null]]);
    expect(reasonsOf(same)).toEqual([["X", "duplicate"]]);
    const nameless = [session(), call("X", [1, 4], {}, outer), call(null, [2, 3], {}, under("outer"))];
    expect(rewardsOf(nameless)).toEqual([["X", null]]);
    expect(reasonsOf(nameless)).toEqual([[null, "nested_without_id"]]);
  });

  test("however deep inside", () => {
    const step = span("step", [1, 4], {}, { span_id: "step", parent_id: "outer" });
    const below = [session(), call("X", [1, 4], {}, outer), step, call(null, [2, 3], {}, under("step"))];
    expect(reasonsOf(below)).toEqual([[null, "nested_without_id"]]);
    const judged = [session(), judge([1, 4], outer), step, call("J", [2, 3], {}, under("step"))];
    expect(reasonsOf(judged)).toEqual([["J", "in_reward"]]);
  });

  test("of two spans with one id, the earlier is the call, also when its parent is missing", () => {
    const earlier = call("X", [1, 2], {}, under("lost"));
    const later = call("X", [3, 4], {}, { parent_id: null });
    const { triplets } = adaptTracerSpans([later, earlier], { repairHierarchy: false });
    expect(triplets.map(({ metadata }) => metadata.sequence_id)).toEqual([earlier.sequence_id]);
  });

  test("a call inside another with an id of its own counts", () => {
    const spans = [session(), call("X", [1, 4], {}, outer), call("Y", [2, 3], {}, under("outer"))];
    expect(rewardsOf(spans).map(([id]) => id)).toEqual(["X", "Y"]);
  });

  test("calls without ids count each; one written twice counts once", () => {
    const twice = call(null, [3, 4]);
    const spans = [session(), call(null, [1, 2]), twice, { ...twice }];
    expect(adaptTracerSpans(spans).triplets.length).toBe(2);
    expect(reasonsOf(spans)).toEqual([]);
  });

  test("the name is searched, not compared", () => {
    const named = (name: string) => [session(), { ...call("A", [1, 2]), name }];
    expect(rewardsOf(named("openai.chat.completions.create")).length).toBe(1);
    expect(rewardsOf(named("raw_gen_ai_request")).length).toBe(0);
    expect(rewardsOf(named("my.model"), { llmCallMatch: "^my\\." }).length).toBe(1);
  });

  test("of an agent that matches, down to the next agent", () => {
    const planner = agent("planner", [1, 9], { span_id: "planner" });
    const inside = [session(), planner, call("A", [2, 3], {}, under("planner"))];
    const { triplets } = adaptTracerSpans(inside, { agentMatch: "plan" });
    expect(triplets.map(({ metadata }) => metadata["agent_name"])).toEqual(["planner"]);
    const writer = agent("writer", [1, 8], { span_id: "writer", parent_id: "planner" });
    const between = [session(), planner, writer, call("A", [2, 3], {}, under("writer"))];
    expect(rewardsOf(between, { agentMatch: "plan" })).toEqual([]);
    expect(reasonsOf(between, { agentMatch: "plan" })).toEqual([["A", "other_agent"]]);
    expect(adaptTracerSpans(between).triplets[0]?.metadata["agent_name"]).toBe("writer");
  });

  test("beside its agent, in the agent's time: with repair only", () => {
    const spans = [session(), agent("planner", [1, 9]), call("A", [2, 3])];
    expect(rewardsOf(spans, { agentMatch: "planner" })).toEqual([["A", null]]);
    expect(rewardsOf(spans, { agentMatch: "planner", repairHierarchy: false })).toEqual([]);
  });

  test.each<[string, string, object]>([
    ["agentops", "span", { "agentops.span.kind": "agent", "operation.name": "planner" }],
    ["autogen", "span", { recipient_agent_type: "planner" }],
    ["langgraph", "span", { "langchain.chain.type": "planner" }],
    ["agent framework", "span", { "executor.id": "planner" }],
    ["weave", "span", { type: "agent", "agentlightning.operation.input.name": "planner" }],
    ["weave and langchain", "langchain.Chain.invoke", { lc_name: "planner" }],
  ])("agents are named as %s does", (_, name, attributes) => {
    const planner = span(name, [1, 9], attributes, { span_id: "planner", parent_id: "root" });
    const { triplets } = adaptTracerSpans([session(), planner, call("A", [2, 3], {}, under("planner"))]);
    expect(triplets[0]?.metadata["agent_name"]).toBe("planner");
  });

  test("calls of a judge are left out, unless they are wanted", () => {
    const spans = [
      session(),
      call("A", [1, 2]),
      judge([3, 6], { span_id: "judge" }),
      call("J", [4, 5], {}, under("judge")),
      reward(1, 7),
    ];
    expect(rewardsOf(spans)).toEqual([["A", 1]]);
    expect(reasonsOf(spans)).toEqual([["J", "in_reward"]]);
    expect(rewardsOf(spans, { excludeLlmCallInReward: false })).toEqual([
      ["A", null],
      ["J", 1],
    ]);
  });

  test.each<[string, Span, string]>([
    ["aborted", call("B", [3, 4], { "agl.call.aborted_by_client": true }), "aborted_by_client"],
    ["failed", call("B", [3, 4], {}, { status: { status_code: "ERROR", description: "500" } }), "failed"],
  ])("a call that was %s takes no reward", (_, unused, reason) => {
    const spans = [session(), call("A", [1, 2]), unused, reward(1, 5)];
    expect(rewardsOf(spans)).toEqual([["A", 1]]);
    expect(reasonsOf(spans)).toEqual([["B", reason]]);
  });

  test("an expression that is none is refused by name", () => {
    expect(() => adaptTracerSpans([], { llmCallMatch: "(" })).toThrow('llmCallMatch is "("');
    expect(() => adaptTracerSpans([], { agentMatch: "[" })).toThrow('agentMatch is "["');
  });
});

// T46, T47, T49
describe("what cannot be a tree is read as far as it goes", () => {
  test("no spans", () => {
    expect(adaptTracerSpans([])).toEqual({ triplets: [], dropped: [], unassignedRewards: [] });
  });

  test("no times: by their order", () => {
    const timeless = { start_time: null, end_time: null };
    const spans = [call("A", [1, 2], {}, timeless), call("B", [3, 4], {}, timeless), reward(1, 5, timeless)];
    expect(rewardsOf(spans)).toEqual([
      ["A", null],
      ["B", 1],
    ]);
  });

  test("one time is both", () => {
    const spans = [session(), call("A", [1, 2], {}, { end_time: null }), reward(1, 3, { start_time: null })];
    expect(rewardsOf(spans)).toEqual([["A", 1]]);
  });

  test("a circle alone, a circle beside a root, and a span that is its own parent", () => {
    const one = call("A", [1, 2], {}, { span_id: "one", parent_id: "two" });
    const two = call("B", [3, 4], {}, { span_id: "two", parent_id: "one" });
    const own = call("C", [5, 6], {}, { span_id: "own", parent_id: "own" });
    for (const spans of [
      [one, two],
      [session(), one, two],
      [one, two, own],
    ]) {
      const calls = spans
        .filter(({ name }) => name === chat)
        .map(({ attributes }) => attributes["gen_ai.response.id"]);
      expect(rewardsOf(spans).map(([id]) => id) as unknown[]).toEqual(calls);
    }
  });

  test("a child that outlasts its parent stays below it, and its calls are not lost", () => {
    const spans = [
      session(),
      agent("long", [0.5, 50]),
      agent("parent", [1, 4], { span_id: "parent" }),
      agent("child", [0.9, 9], { span_id: "child", parent_id: "parent" }),
      call("A", [2, 3], {}, under("child")),
    ];
    expect(rewardsOf(spans)).toEqual([["A", null]]);
  });

  test("a call during the finding of a reward is not taken for the judge's", () => {
    const spans = [session(), judge([1, 9]), call("A", [2, 3]), reward(1, 10)];
    expect(rewardsOf(spans)).toEqual([["A", 1]]);
  });

  test("a chain of any depth", () => {
    const chain = Array.from({ length: 20_000 }, (_, index) =>
      span(
        "step",
        [0, 1],
        {},
        { span_id: `deep-${index}`, parent_id: index === 0 ? null : `deep-${index - 1}` },
      ),
    );
    expect(rewardsOf([...chain, call("A", [0, 1], {}, under("deep-19999"))]).length).toBe(1);
  });
});

describe("what a triplet holds", () => {
  const only = (attributes: object) => adaptTracerSpans([span(chat, [1, 2], attributes)]).triplets[0];
  const ids = (attributes: object) => {
    const triplet = only(attributes);
    return [triplet?.prompt.token_ids, triplet?.response.token_ids];
  };
  const output = "agentlightning.operation.output";

  test.each<[string, object]>([
    ["native lists", { prompt_token_ids: [1], response_token_ids: [2, 3] }],
    ["texts", { prompt_token_ids: "[1]", response_token_ids: "[2, 3]" }],
    ["nested", { prompt_token_ids: [1], response_token_ids: "[[2, 3]]" }],
    ["an operation", { [`${output}.prompt_token_ids`]: [1], [`${output}.response_token_ids.0`]: [2, 3] }],
    [
      "an operation's choices",
      { [`${output}.prompt_token_ids`]: [1], [`${output}.choices.0.token_ids`]: [2, 3] },
    ],
    [
      "LiteLLM's place",
      {
        [`${output}.prompt_token_ids`]: [1],
        [`${output}.choices.0.provider_specific_fields.token_ids`]: [2, 3],
      },
    ],
  ])("ids from %s", (_, attributes) => {
    expect(ids(attributes)).toEqual([[1], [2, 3]]);
  });

  const good = { prompt_token_ids: [1], response_token_ids: [2, 3] };

  test.each<[string, object, string]>([
    ["booleans", { ...good, prompt_token_ids: [true] }, "no_prompt_token_ids"],
    ["fractions", { ...good, response_token_ids: [2.5] }, "no_response_token_ids"],
    ["negatives", { ...good, prompt_token_ids: "[-1]" }, "no_prompt_token_ids"],
    ["another count", { ...good, "gen_ai.usage.completion_tokens": 3 }, "response_count_mismatch"],
    ["another prompt count", { ...good, "gen_ai.usage.input_tokens": 3 }, "prompt_count_mismatch"],
    ["a mark", { ...good, "agl.call.token_exact": false, "agl.call.inexact_reason": "no_usage" }, "no_usage"],
  ])("%s: kept with its reward, without ids", (_, attributes, reason) => {
    const { triplets } = adaptTracerSpans([
      span(chat, [1, 2], attributes),
      reward(1, 3, { parent_id: null }),
    ]);
    expect(triplets).toMatchObject([
      {
        prompt: { token_ids: [] },
        response: { token_ids: [] },
        reward: 1,
        metadata: { exact: false, reason },
      },
    ]);
  });

  test("with several choices, the first, whatever all of them count", () => {
    const two = {
      ...good,
      "gen_ai.usage.completion_tokens": 9,
      "gen_ai.completion.0.finish_reason": "stop",
      "gen_ai.completion.1.finish_reason": "length",
    };
    expect(only(two)).toMatchObject({
      response: { token_ids: [2, 3] },
      metadata: { exact: true, finish_reason: "stop" },
    });
  });

  test("texts, pictures, log-probabilities, request and response", () => {
    const picture = (url: string) => ({ type: "image_url", image_url: { url } });
    const triplet = only({
      ...good,
      "gen_ai.response.id": "A",
      "gen_ai.response.model": "m",
      "gen_ai.request.temperature": 0,
      "gen_ai.request.functions.0.name": "calculate",
      "gen_ai.prompt.0.role": "user",
      "gen_ai.prompt.0.content": JSON.stringify([{ type: "text", text: "See" }, picture("one")]),
      "gen_ai.prompt.1.content": "[broken",
      "gen_ai.prompt.2.content": JSON.stringify([picture("two")]),
      "gen_ai.completion.0.role": "assistant",
      "gen_ai.completion.0.content": "Hello",
      "logprobs.content": '[{"token":"Hello","logprob":-0.5}]',
      "agl.call.checkpoint": "version_1",
    });
    expect(triplet).toEqual({
      prompt: {
        token_ids: [1],
        raw_content: [
          { role: "user", content: expect.any(String) },
          { content: "[broken" },
          { content: expect.any(String) },
        ],
        image_urls: ["one", "two"],
      },
      response: {
        token_ids: [2, 3],
        raw_content: [{ role: "assistant", content: "Hello" }],
        logprobs: [{ token: "Hello", logprob: -0.5 }],
      },
      reward: null,
      metadata: {
        response_id: "A",
        sequence_id: expect.any(Number),
        checkpoint: "version_1",
        exact: true,
        reason: null,
        finish_reason: null,
        agent_name: "*",
        request: { temperature: 0, functions: [{ name: "calculate" }] },
        response: { id: "A", model: "m" },
      },
    });
  });

  test("an operation says the same in its own names", () => {
    expect(
      only({
        "agentlightning.operation.input.model": "m",
        "agentlightning.operation.input.messages.0.content": "Hi",
        [`${output}.id`]: "A",
        [`${output}.prompt_token_ids`]: [1],
        [`${output}.choices.0.token_ids`]: [2],
        [`${output}.choices.0.finish_reason`]: "stop",
      }),
    ).toMatchObject({
      prompt: { raw_content: [{ content: "Hi" }], image_urls: [] },
      response: { raw_content: [{ finish_reason: "stop" }] },
      metadata: { response_id: "A", request: { model: "m" }, response: { id: "A" }, finish_reason: "stop" },
    });
  });

  test("nothing but ids", () => {
    const triplet = only(good);
    expect(triplet).toMatchObject({
      prompt: { raw_content: null, image_urls: [] },
      response: { raw_content: null },
      metadata: { response_id: null, request: null, response: null },
    });
    expect(triplet?.response).not.toContainKey("logprobs");
  });
});

/** Any small forest of calls, agents, rewards and judges; parents may be missing or go in circles. */
const forest = fc
  .array(
    fc.record({
      kind: fc.constantFrom("call", "call", "agent", "reward", "judge"),
      start: fc.integer({ min: 0, max: 12 }),
      length: fc.integer({ min: 0, max: 8 }),
      parent: fc.option(fc.constantFrom(0, 1, 2, 3, 20), { freq: 2 }),
      times: fc.constantFrom("both", "both", "both", "start", "end", "none"),
    }),
    { maxLength: 12 },
  )
  .map((rows) =>
    rows.map(({ kind, start, length, parent, times }, index): Span => {
      const end = kind === "reward" ? start : start + length;
      const changes: Changes = {
        span_id: `f${index}`,
        parent_id: parent === null ? null : `f${parent}`,
        sequence_id: index + 1,
        start_time: times === "both" || times === "start" ? start : null,
        end_time: times === "both" || times === "end" ? end : null,
      };
      if (kind === "call") return call(`C${index}`, [start, end], {}, changes);
      if (kind === "agent") return agent(`a${index}`, [start, end], changes);
      return kind === "judge" ? judge([start, end], changes) : reward(index, start, changes);
    }),
  );
const optionSets = fc.record<Partial<TracerAdapterOptions>>(
  {
    repairHierarchy: fc.boolean(),
    excludeLlmCallInReward: fc.boolean(),
    rewardMatch: fc.constantFrom("first_occurrence", "first_sibling"),
    agentMatch: fc.constantFrom(null, "a1", "nobody"),
  },
  { requiredKeys: [] },
) as fc.Arbitrary<TracerAdapterOptions>;

describe("whatever the spans look like", () => {
  test("every call is a triplet or dropped with a reason, every reward is given once or listed", () => {
    fc.assert(
      fc.property(forest, optionSets, (spans, options) => {
        const { triplets, dropped, unassignedRewards } = adaptTracerSpans(spans, options);
        const calls = spans.filter(({ name }) => name === chat).map(({ sequence_id }) => sequence_id);
        const seen = [
          ...triplets.map(({ metadata }) => metadata.sequence_id),
          ...dropped.map((item) => item.sequence_id),
        ];
        expect(seen.toSorted((one, other) => one - other)).toEqual(calls);
        const rewards = spans.filter(({ name }) => name === "agentlightning.annotation").length;
        expect(triplets.filter((triplet) => triplet.reward !== null).length + unassignedRewards.length).toBe(
          rewards,
        );
      }),
    );
  });

  // T48, T50
  test("triplets come in the order of their calls, however the spans came", () => {
    fc.assert(
      fc.property(
        forest.chain((spans) =>
          fc.tuple(fc.constant(spans), fc.shuffledSubarray(spans, { minLength: spans.length })),
        ),
        optionSets,
        ([spans, shuffled], options) => {
          const adapted = adaptTracerSpans(spans, options);
          expect(adaptTracerSpans(shuffled, options)).toEqual(adapted);
          const order = adapted.triplets.map(({ metadata }) => metadata.sequence_id);
          expect(order).toEqual(order.toSorted((one, other) => one - other));
        },
      ),
      { numRuns: 500 },
    );
  });

  test("repair loses no call, and takes none for a judge's", () => {
    fc.assert(
      fc.property(forest, (spans) => {
        const idsOf = (options: TracerAdapterOptions) => rewardsOf(spans, options).map(([id]) => id);
        expect(idsOf({ repairHierarchy: true })).toEqual(idsOf({ repairHierarchy: false }));
      }),
    );
  });

  test("a reward goes to a call that was over before it", () => {
    fc.assert(
      fc.property(forest, optionSets, (spans, options) => {
        for (const triplet of adaptTracerSpans(spans, options).triplets) {
          if (triplet.reward === null) continue;
          const [from, to] = [triplet.metadata.sequence_id, triplet.reward + 1].map(
            (at) => spans[at - 1] as Span,
          );
          const end = from?.end_time ?? from?.start_time ?? Infinity;
          expect(end).toBeLessThanOrEqual(to?.start_time ?? to?.end_time ?? Infinity);
        }
      }),
    );
  });

  test("nothing throws", () => {
    const key = fc.oneof(
      fc.constantFrom(
        "prompt_token_ids",
        "response_token_ids",
        "gen_ai.response.id",
        "gen_ai.prompt.0.content",
        "gen_ai.prompt",
        "gen_ai.completion.0",
        "gen_ai.completion.__proto__.x",
        "agentlightning.operation.output",
        "agentlightning.operation.output.choices",
        "agentlightning.operation.output.choices.0.token_ids",
        "agentlightning.reward.0.value",
        "agent.name",
        "logprobs.content",
      ),
      fc.string(),
    );
    const value = fc.oneof(
      fc.string(),
      fc.jsonValue(),
      fc.constantFrom("[[]]", "[{}]", "[None]", Number.NaN),
    );
    const name = fc.constantFrom(chat, "agentlightning.annotation", "agentlightning.operation", "x");
    const id = fc.constantFrom("a", "b", "c", "");
    const time = fc.option(fc.nat(5));
    const anySpan = fc.tuple(name, fc.dictionary(key, value), id, fc.option(id), time, time, fc.nat(3));
    fc.assert(
      fc.property(fc.array(anySpan), optionSets, (rows, options) => {
        const spans = rows.map(
          ([spanName, attributes, span_id, parent_id, start_time, end_time, sequence_id]) =>
            span(spanName, [0, 0], attributes, { span_id, parent_id, start_time, end_time, sequence_id }),
        );
        adaptTracerSpans(spans, options);
      }),
    );
  });
});

test("calls one after another give the same as through the proxy", () => {
  const event = fc.oneof(fc.constant("call" as const), fc.double({ min: 0, max: 1, noNaN: true }));
  fc.assert(
    fc.property(fc.array(event, { maxLength: 12 }), (events) => {
      const both = events.map((item, index) => {
        const changes = { parent_id: null, sequence_id: index + 1 };
        if (item !== "call") return [reward(item, index, changes), reward(item, index, changes)] as const;
        const proxied = {
          "llm.hosted_vllm.id": `C${index}`,
          "llm.hosted_vllm.prompt_token_ids": `[1, ${index}]`,
          "llm.hosted_vllm.response_token_ids": `[[2, ${index}]]`,
        };
        return [
          call(`C${index}`, [index, index + 0.5], {}, changes),
          span("raw_gen_ai_request", [index, index + 0.5], proxied, changes),
        ] as const;
      });
      const what = ({ triplets, unassignedRewards }: ReturnType<typeof adaptProxySpans>) => ({
        unassignedRewards,
        calls: triplets.map((triplet) => [
          triplet.metadata.response_id,
          triplet.prompt.token_ids,
          triplet.response.token_ids,
          triplet.reward,
        ]),
      });
      const traced = adaptTracerSpans(both.map(([one]) => one));
      const recorded = adaptProxySpans(both.map(([, other]) => other));
      expect(what(traced)).toEqual(what(recorded));
      // Both in one store: each adapter reads its own.
      const all = both
        .flat()
        .filter((item, index, list) => list.findIndex((other) => other === item) === index);
      const once = all.filter(({ name }, index) => name !== "agentlightning.annotation" || index % 2 === 0);
      expect(what(adaptTracerSpans(once))).toEqual(what(traced));
      expect(what(adaptProxySpans(once))).toEqual(what(recorded));
    }),
  );
});

describe("a call lies below the shortest span that encloses it", () => {
  const agentOf = (spans: Span[]) =>
    adaptTracerSpans([session(), ...spans]).triplets[0]?.metadata["agent_name"];
  const theCall = () => call("A", [3, 4]);

  test.each<[string, Span[], string]>([
    ["of two, the shorter", [agent("long", [1, 9]), agent("short", [2, 5]), theCall()], "short"],
    ["of two as long, the first", [agent("first", [2, 5]), agent("second", [2, 5]), theCall()], "first"],
    ["at its very bounds", [agent("exact", [3, 4.5]), agent("long", [1, 9]), theCall()], "exact"],
    ["not one of the same times", [agent("same", [3, 4]), agent("long", [1, 9]), theCall()], "long"],
    ["not one that ends before it", [agent("brief", [2, 3.5]), agent("late", [3.5, 9]), theCall()], "*"],
    [
      "also one that lies below another",
      [agent("long", [1, 9], { span_id: "long" }), agent("below", [2, 5], { parent_id: "long" }), theCall()],
      "below",
    ],
  ])("%s", (_, spans, expected) => {
    expect(agentOf(spans)).toBe(expected);
  });

  test("at the first level with several spans only, and while it has several", () => {
    const top = span("top", [0, 50], {}, { span_id: "top", parent_id: "root" });
    const beside = [agent("planner", [1, 9], under("top")), call("A", [3, 4], {}, under("top"))];
    expect(agentOf([top, ...beside])).toBe("planner");
    expect(agentOf([top, span("other", [60, 61], {}, under("root")), ...beside])).toBe("*");
  });
});
