import { expect } from "bun:test";
import { adaptProxySpans } from "../../src/adapter/proxy-adapter.ts";
import type { Triplet } from "../../src/adapter/triplet.ts";
import { propagateRewards } from "../../src/algorithm/propagate.ts";
import { makeRow } from "../../src/algorithm/rows.ts";
import type { Span } from "../../src/protocol/types.ts";
import { type FakeVllm, replyAs, startFakeVllm } from "../helpers/fake-vllm.ts";
import { runPython } from "./python.ts";

/** The task of an agent that makes two calls, with a reward after each. */
export const task = { question: "What is 12*7?", expected: "Answer 1, with 'quotes' and “größe”" };

/** A model server that answers with ids, the first call and the second one otherwise. */
export function startTwoCallModel(): FakeVllm {
  return startFakeVllm((request, index) => {
    const turn = request.body["messages"].length === 1 ? 0 : 1;
    return replyAs(request, {
      id: `chatcmpl-${index}`,
      prompt_token_ids: [151_644, 8948, turn],
      pieces: [
        { text: `Answer ${turn}, with `, token_ids: [10, turn] },
        { text: "'quotes' and “größe”", token_ids: [11] },
        { delta: {}, token_ids: [151_645] },
      ],
    });
  });
}

export function expectTwoCalls(spans: Span[], checkpoint: string | null = "version_0"): Triplet[] {
  const { triplets, dropped, unassignedRewards } = adaptProxySpans(spans);
  expect({ dropped, unassignedRewards }).toEqual({ dropped: [], unassignedRewards: [] });
  expect(triplets).toMatchObject([
    {
      prompt: { token_ids: [151_644, 8948, 0] },
      response: { token_ids: [10, 0, 11, 151_645] },
      reward: 0.25,
      metadata: { exact: true, checkpoint },
    },
    { prompt: { token_ids: [151_644, 8948, 1] }, response: { token_ids: [10, 1, 11, 151_645] }, reward: 1 },
  ]);
  return triplets;
}

interface UpstreamTriplet {
  prompt: { token_ids: number[] };
  response: { token_ids: number[] };
  reward: number | null;
  metadata: { response_id: string };
}

/** The original's adapter reads the same from the same spans, and so the same rows come out. */
export async function expectSameTriplets(
  storeUrl: string,
  rolloutId: string,
  ours: Triplet[],
): Promise<void> {
  const theirs: UpstreamTriplet[] = JSON.parse(await runPython("triplets.py", [storeUrl, rolloutId]));
  const essence = ({ prompt, response, reward, metadata }: Triplet | UpstreamTriplet) => ({
    prompt: prompt.token_ids,
    response: response.token_ids,
    reward,
    id: metadata.response_id,
  });
  expect(theirs.map(essence)).toEqual(ours.map(essence));
  const rows = (triplets: Triplet[]) =>
    propagateRewards(triplets, "filter-first").calls.map((call) => makeRow(rolloutId, call).row);
  const fromTheirs = theirs.map((triplet, index): Triplet => {
    const { metadata } = ours[index]!;
    return { prompt: triplet.prompt, response: triplet.response, reward: triplet.reward, metadata };
  });
  expect(rows(fromTheirs)).toEqual(rows(ours));
  expect(rows(ours).map(({ reward }) => reward)).toEqual([0.25, 1]);
}
