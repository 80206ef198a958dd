import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { rewardAttributes } from "../../src/protocol/reward-attributes.ts";
import { adaptTracerSpans } from "../../src/adapter/tracer-adapter.ts";
import type { Triplet } from "../../src/adapter/triplet.ts";
import type { Attributes, Span } from "../../src/protocol/types.ts";
import { type FakeVllm, replyAs, startFakeVllm } from "../helpers/fake-vllm.ts";
import { makeSpan } from "../helpers/spans.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";
import { startTracedRunners } from "../helpers/traced-runners.ts";
import { makeInteropPython, runPython } from "./python.ts";

/**
 * Our tracer adapter against that of agentlightning 0.3.0, on the same spans.
 * Run with `bun test ./test/interop/tracer-adapter.real.ts`.
 */
const minute = 60_000;
const folder = temporaryFolder();
let vllm: FakeVllm | undefined;

beforeAll(() => makeInteropPython(), 10 * minute);
afterAll(async () => vllm?.stop());

interface Case {
  options: {
    repair_hierarchy: boolean;
    exclude_llm_call_in_reward: boolean;
    reward_match: "first_occurrence" | "first_sibling";
    agent_match: string | null;
  };
  spans: Span[];
}

async function theirs(cases: { options: object; spans: Span[] }[]): Promise<Triplet[][]> {
  const file = join(folder, "cases.jsonl");
  writeFileSync(file, cases.map((item) => JSON.stringify(item)).join("\n"));
  const printed = await runPython("tracer_triplets.py", [file]);
  return printed
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Triplet[]);
}

function ours({ options, spans }: Case): Triplet[] {
  return adaptTracerSpans(spans, {
    repairHierarchy: options.repair_hierarchy,
    excludeLlmCallInReward: options.exclude_llm_call_in_reward,
    rewardMatch: options.reward_match,
    agentMatch: options.agent_match,
  }).triplets;
}

/** What both know of a triplet. Theirs come in the order of a walk through the tree, so all are sorted by their ids. */
function comparable(triplets: Triplet[]) {
  return triplets
    .map(({ prompt, response, reward, metadata }) => ({
      prompt,
      response,
      reward,
      response_id: metadata.response_id,
      agent_name: metadata["agent_name"],
      request: metadata["request"],
      answer: metadata["response"],
    }))
    .sort((one, other) => (JSON.stringify(one.prompt) < JSON.stringify(other.prompt) ? -1 : 1));
}

const twentieth = fc.integer({ min: 0, max: 20 }).map((number) => number / 20);
const options: fc.Arbitrary<Case["options"]> = fc.record({
  repair_hierarchy: fc.boolean(),
  exclude_llm_call_in_reward: fc.boolean(),
  reward_match: fc.constantFrom("first_occurrence", "first_sibling"),
  agent_match: fc.constantFrom(null, null, "plan"),
});
const rows = fc.array(
  fc.record({
    kind: fc.constantFrom("call", "call", "call", "agent", "reward", "step", "judge"),
    parent: fc.nat(30),
    times: fc.tuple(twentieth, twentieth),
    id: fc.constantFrom(null, "own", "own", "own", "R1", "R2"),
    agent: fc.constantFrom("planner", "writer"),
    writer: fc.constantFrom("operation", "gen_ai"),
  }),
  { minLength: 5, maxLength: 16, size: "max" },
);

/**
 * Trees as tracers write them. Where the original is known to go wrong, ours differs on purpose, so nothing here outlasts
 * its parent, and no reward is found (`judge`) while repair is on.
 */
const cases: fc.Arbitrary<Case> = fc.tuple(rows, options).map(([items, chosen]) => {
  const spans = [spanAt(0, null, "session", [0, 100], {})];
  for (const { kind, parent, times, id, agent, writer } of items) {
    const index = spans.length;
    const above = spans[parent % index] as Span;
    const [from, to] = [above.start_time ?? 0, above.end_time ?? 0];
    const start = from + Math.min(...times) * (to - from);
    const end = kind === "reward" ? start : from + Math.max(...times) * (to - from);
    const place = (name: string, attributes: Attributes) =>
      spans.push(spanAt(index, above.span_id, name, [start, end], attributes));
    if (kind === "call") {
      const responseId = id === "own" ? `C${index}` : id;
      place(
        "openai.chat.completion",
        writer === "gen_ai" ? genAi(index, responseId) : operation(index, responseId),
      );
    } else if (kind === "agent") place("agent", { "agent.name": agent });
    else if (kind === "reward") place("agentlightning.annotation", rewardAttributes(index / 10));
    else if (kind === "judge" && !chosen.repair_hierarchy) {
      place("agentlightning.operation", { "agentlightning.operation.name": "agentlightning.reward" });
    } else place("step", {});
  }
  return { options: chosen, spans };
});

function spanAt(
  index: number,
  parent_id: string | null,
  name: string,
  [start_time, end_time]: [number, number],
  attributes: Attributes,
): Span {
  const place = { span_id: `s${index}`, sequence_id: index + 1, context: null };
  return makeSpan("ro-1", "at-1", name, attributes, { ...place, parent_id, start_time, end_time });
}

function genAi(index: number, responseId: string | null): Attributes {
  return {
    ...(responseId === null ? {} : { "gen_ai.response.id": responseId }),
    "gen_ai.response.model": "m",
    "gen_ai.request.temperature": 0.5,
    "gen_ai.prompt.0.role": "user",
    "gen_ai.prompt.0.content": JSON.stringify([{ type: "image_url", image_url: { url: `u${index}` } }]),
    "gen_ai.completion.0.content": "yes",
    "logprobs.content": '[{"token":"yes","logprob":-1.5}]',
    prompt_token_ids: [1, index],
    response_token_ids: [2, index],
  };
}

function operation(index: number, responseId: string | null): Attributes {
  const output = "agentlightning.operation.output";
  return {
    ...(responseId === null ? {} : { [`${output}.id`]: responseId }),
    "agentlightning.operation.input.model": "m",
    "agentlightning.operation.input.messages.0.content": "Hi",
    [`${output}.prompt_token_ids`]: [1, index],
    [`${output}.choices.0.token_ids`]: [2, index],
  };
}

describe("our tracer adapter and the original's", () => {
  test(
    "make the same triplets of the same trees",
    async () => {
      const sample = fc.sample(cases, { numRuns: 2_000, seed: 7 });
      const expected = await theirs(sample);
      expect(expected.length).toBe(sample.length);
      for (const [index, item] of sample.entries()) {
        expect({ item, triplets: comparable(ours(item)) }).toEqual({
          item,
          triplets: comparable(expected[index] as Triplet[]),
        });
      }
      expect(expected.flat().filter(({ reward }) => reward !== null).length).toBeGreaterThan(200);
    },
    3 * minute,
  );

  test(
    "make the same triplets of what our own tracer writes",
    async () => {
      vllm = startFakeVllm((request, index) =>
        replyAs(request, {
          id: `chatcmpl-${index}`,
          prompt_token_ids: [1, index],
          pieces: [{ text: "yes", token_ids: [2, index] }],
        }),
      );
      await using fixture = await startTracedRunners({ baseUrl: vllm.baseUrl, model: "m" });
      const steps = ["plain", "reward", "stream", "helper", "reward"];
      const id = await fixture.runners.enqueue({ steps }, { resources_id: fixture.direct });
      await fixture.runners.ended(id);
      const spans = await fixture.runners.spans(id);
      const [expected = []] = await theirs([{ options: {}, spans }]);
      expect(comparable(adaptTracerSpans(spans).triplets)).toEqual(comparable(expected));
      expect(expected.map(({ reward }) => reward)).toEqual([0.01, 1, 0.04]);
    },
    minute,
  );
});
