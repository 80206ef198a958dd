import type { Triplet } from "../../src/adapter/triplet.ts";

export interface SampleTriplet {
  prompt?: number[];
  response?: number[];
  reward?: number | null;
  sequence_id?: number;
  exact?: boolean;
}

export function sampleTriplet(sample: SampleTriplet = {}): Triplet {
  const { prompt = [1, 2], response = [3], reward = null, sequence_id = 1, exact = true } = sample;
  return {
    prompt: { token_ids: exact ? prompt : [] },
    response: { token_ids: exact ? response : [] },
    reward,
    metadata: {
      response_id: `chatcmpl-${sequence_id}`,
      sequence_id,
      checkpoint: "version_0",
      exact,
      reason: exact ? null : "no_usage",
    },
  };
}
