import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { adaptMessages } from "../../src/adapter/messages-adapter.ts";
import { adaptProxySpans } from "../../src/adapter/proxy-adapter.ts";
import { adaptTracerSpans } from "../../src/adapter/tracer-adapter.ts";
import type { AdaptedSpans } from "../../src/adapter/triplet.ts";
import { exportedLines } from "../../src/inspect/exported.ts";
import { rowsOfRollout } from "../../src/inspect/rollout-rows.ts";
import type { Span } from "../../src/protocol/types.ts";
import { openStore } from "../../src/store/sqlite-store.ts";
import {
  type CallFate,
  type HappenedCall,
  happen,
  type History,
  type Step,
  stepsWith,
} from "../helpers/agent-history.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

/** What a row must be, from the history alone: the ids as they were recorded, the reward by the written rule. */
function expectedRows({ events }: History, counts: (call: HappenedCall) => boolean) {
  const calls: { call: HappenedCall; reward: number | null }[] = [];
  const loose: number[] = [];
  for (const event of events) {
    if ("call" in event) {
      if (counts(event.call) && reachedAgent(event.call)) calls.push({ call: event.call, reward: null });
      continue;
    }
    const latest = calls.findLast(({ reward }) => reward === null);
    if (latest === undefined) loose.push(event.reward);
    else latest.reward = event.reward;
  }
  const rows = calls.map(({ call }, index) => ({
    call,
    reward: calls.slice(index).find(({ reward }) => reward !== null)?.reward ?? null,
  }));
  return {
    rows: rows
      .filter(({ call, reward }) => call.fate === "exact" && reward !== null)
      .map(({ call, reward }) => ({
        input_ids: [...call.prompt, ...call.response],
        attention_mask: [...call.prompt, ...call.response].map(() => 1),
        labels: [...call.prompt.map(() => -100), ...call.response],
        reward: reward as number,
      })),
    rewards: calls.map(({ call, reward }) => [call.responseId, reward]),
    loose,
    unrewarded: rows.filter(({ call, reward }) => call.fate === "exact" && reward === null).length,
  };
}

const reachedAgent = ({ fate }: HappenedCall) => !["failed", "aborted", "stale"].includes(fate);
const reasonOf: Record<Exclude<CallFate, "exact">, string> = {
  wrong_count: "prompt_count_mismatch",
  no_ids: "no_prompt_token_ids",
  failed: "failed",
  aborted: "aborted_by_client",
  stale: "stale",
};

const rowsOf = (spans: Span[], adapter: (spans: Span[]) => AdaptedSpans) =>
  rowsOfRollout({ rollout_id: "ro-1", status: "succeeded" }, spans, { rule: "above-mean", adapter });
const callsOf = ({ events }: History) => events.flatMap((event) => ("call" in event ? [event.call] : []));

/** Some spans arrive twice, and all in any order. */
const disorder = fc.record({ repeated: fc.array(fc.nat()), seed: fc.array(fc.nat(), { minLength: 1 }) });
function disordered(spans: Span[], { repeated, seed }: { repeated: number[]; seed: number[] }): Span[] {
  if (spans.length === 0) return [];
  const twice = repeated.map((index) => structuredClone(spans[index % spans.length] as Span));
  const keyOf = (_: Span, index: number) =>
    ((seed[index % seed.length] as number) * 2654435761 + index * 40503) % 4294967296;
  return [...spans, ...twice]
    .map((span, index) => ({ span, key: keyOf(span, index) }))
    .sort((one, other) => one.key - other.key)
    .map(({ span }) => span);
}

const withoutJudge = stepsWith(["agent"]);
const any = stepsWith(["agent", "judge"]);
const proxy = (spans: Span[]) => adaptProxySpans(spans);
const tracer = (spans: Span[]) => adaptTracerSpans(spans);

describe("rows equal the ids recorded, in order, whatever the tree and the order of arrival", () => {
  test.each<[string, (spans: Span[]) => AdaptedSpans, fc.Arbitrary<Step[]>, (history: History) => Span[]]>([
    ["recorded by the proxy", proxy, any, ({ proxied, others }) => [...proxied, ...others]],
    ["recorded by a tracer", tracer, any, ({ traced, others }) => [...traced, ...others]],
    ["by both, read by the proxy's", proxy, any, (all) => [...all.proxied, ...all.traced, ...all.others]],
    ["by both, read by the tracer's", tracer, any, (all) => [...all.proxied, ...all.traced, ...all.others]],
  ])("%s", (what, adapter, steps, spansOf) => {
    fc.assert(
      fc.property(steps, disorder, (plan, order) => {
        const history = happen(plan);
        // Only a tracer sees who asked.
        const counts = ({ judged }: HappenedCall) => !judged || what === "recorded by the proxy";
        const expected = expectedRows(history, counts);
        const { rows, leftOut, unassignedRewards } = rowsOf(disordered(spansOf(history), order), adapter);
        expect(rows.map(({ row }) => row)).toEqual(expected.rows);
        const loose = [...new Set(unassignedRewards.map(({ sequence_id }) => sequence_id))];
        if (order.repeated.length === 0) expect(loose.length).toBe(expected.loose.length);

        const reasons = callsOf(history).flatMap((call) => {
          if (!counts(call)) return ["in_reward"];
          return call.fate === "exact" ? [] : [reasonOf[call.fate]];
        });
        const missing = Array.from({ length: expected.unrewarded }, () => "no_reward");
        const given = leftOut.map(({ reason }) => reason).filter((reason) => reason !== "duplicate");
        expect(given.sort()).toEqual([...reasons, ...missing].sort());
      }),
      { numRuns: 150 },
    );
  });
});

test("proxy and tracer agree on the same calls and their rewards", () => {
  fc.assert(
    fc.property(withoutJudge, disorder, (plan, { seed }) => {
      const history = happen(plan);
      const order = { repeated: [], seed };
      const what = ({ triplets, dropped, unassignedRewards }: AdaptedSpans) => ({
        calls: triplets.map(({ prompt, response, reward, metadata }) => ({
          ids: [prompt.token_ids, response.token_ids],
          reward,
          response_id: metadata.response_id,
          reason: metadata.reason,
        })),
        dropped: dropped.map(({ reason }) => reason),
        unassignedRewards,
      });
      const recorded = what(proxy(disordered([...history.proxied, ...history.others], order)));
      const seen = what(tracer(disordered([...history.traced, ...history.others], order)));
      expect(seen).toEqual(recorded);
      expect(recorded.calls.map(({ response_id, reward }) => [response_id, reward])).toEqual(
        expectedRows(history, () => true).rewards,
      );
      // Both in one store: each reads its own, and neither takes the other's for calls of their own.
      const all = disordered([...history.proxied, ...history.traced, ...history.others], order);
      expect([what(proxy(all)), what(tracer(all))]).toEqual([recorded, recorded]);
    }),
    { numRuns: 150 },
  );
});

test("in words, each call is told once, by whichever of both, and the reasons are those of the spans", () => {
  fc.assert(
    fc.property(withoutJudge, disorder, (plan, { seed }) => {
      const history = happen(plan);
      for (const span of [...history.proxied, ...history.traced]) {
        if (!["litellm_request", "openai.chat.completion"].includes(span.name)) continue;
        Object.assign(span.attributes, {
          "gen_ai.prompt.0.role": "user",
          "gen_ai.prompt.0.content": "Hi",
          "gen_ai.completion.0.role": "assistant",
        });
      }
      for (const of of [[history.proxied], [history.traced], [history.proxied, history.traced]]) {
        const { calls, dropped } = adaptMessages(
          disordered([...of.flat(), ...history.others], { repeated: [], seed }),
        );
        const happened = callsOf(history);
        const told = happened.filter(reachedAgent);
        expect(calls.map(({ response_id }) => response_id)).toEqual(told.map(({ responseId }) => responseId));
        expect(dropped.map(({ reason }) => reason).sort()).toEqual(
          happened.flatMap((call) => (reachedAgent(call) ? [] : [reasonOf[call.fate as "failed"]])).sort(),
        );
      }
    }),
  );
});

test("of attempts whose spans arrive mixed, each has its own calls, and rows are those of the latest", async () => {
  const folder = temporaryFolder();
  let runs = 0;
  await fc.assert(
    fc.asyncProperty(withoutJudge, withoutJudge, disorder, async (early, late, order) => {
      const store = openStore({ path: `${folder}/${(runs += 1)}.db` });
      try {
        const { rollout_id, attempt } = await store.startRollout({ input: "x" });
        const second = await store.startAttempt(rollout_id);
        const attempts = [attempt.attempt_id, second.attempt.attempt_id];
        const histories = [happen(early, attempts[0]), happen(late, attempts[1])];
        const spans = histories.flatMap(({ proxied, others }) => [...proxied, ...others]);
        await store.addSpans(disordered(spans, order).map((span) => ({ ...span, rollout_id })));
        await store.updateAttempt(rollout_id, attempts[1] as string, { status: "succeeded" });
        const lines = async (kind: "rows" | "triplets", chosen?: string[]) => {
          const options = {
            filter: {},
            ...(chosen === undefined ? {} : { attempts: chosen }),
            rules: { rule: "above-mean" as const },
            onLeftOut: () => {},
            onWithoutCall: () => {},
          };
          return (await Array.fromAsync(exportedLines(kind, store, options))).map((line) => JSON.parse(line));
        };
        const expected = histories.map((history) => expectedRows(history, () => true));
        expect((await lines("rows")).map(({ input_ids, reward }) => [input_ids, reward])).toEqual(
          (expected[1]?.rows ?? []).map(({ input_ids, reward }) => [input_ids, reward]),
        );
        const triplets = await lines("triplets", attempts);
        expect(triplets.map(({ metadata, reward }) => [metadata.response_id, reward])).toEqual(
          expected.flatMap(({ rewards }) => rewards),
        );
      } finally {
        await store.close();
      }
    }),
    { numRuns: 15 },
  );
});
