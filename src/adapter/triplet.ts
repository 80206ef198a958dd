/** One call of the agent as training sees it: what the model read, what it wrote, what that was worth. */
export interface Triplet {
  prompt: TripletPrompt;
  response: TripletResponse;
  reward: number | null;
  metadata: TripletMetadata;
}

export interface TripletPrompt {
  token_ids: number[];
  /** The messages, as far as the spans tell. */
  raw_content?: unknown;
  image_urls?: string[];
}

export interface TripletResponse {
  token_ids: number[];
  raw_content?: unknown;
  logprobs?: unknown;
}

export interface TripletMetadata {
  response_id: string | null;
  sequence_id: number;
  /** The checkpoint that answered, when the recorder knew it. */
  checkpoint: string | null;
  /**
   * False: the ids cannot be trusted, so both lists are empty; `reason` says why. Such a call is kept
   * because a reward may belong to it and flow back from it to the calls before.
   */
  exact: boolean;
  reason: string | null;
  [extra: string]: unknown;
}

/** A call that is no triplet, and takes no reward. */
export interface DroppedCall {
  sequence_id: number;
  response_id: string | null;
  reason: string;
}

/** What an adapter makes of the spans of one attempt. */
export interface AdaptedSpans {
  /** In call order: by sequence id, then start time. */
  triplets: Triplet[];
  dropped: DroppedCall[];
  /** Rewards before every call, or more rewards than calls. */
  unassignedRewards: { sequence_id: number; value: number }[];
}
