/** One call of the agent as training sees it: what the model read, what it wrote, what that was worth. */
export interface Triplet {
  prompt: { token_ids: number[] };
  response: { token_ids: number[] };
  reward: number | null;
  metadata: TripletMetadata;
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
