import type { RewardedCall } from "./propagate.ts";

/** What the trainer reads, one JSON object per line. The ids are the model server's own. */
export interface Row {
  input_ids: number[];
  attention_mask: number[];
  /** -100 on the prompt: only the response is learned. */
  labels: number[];
  reward: number;
}

export interface RowProvenance {
  rollout_id: string;
  sequence_id: number;
  response_id: string | null;
  checkpoint: string | null;
}

export interface RecordedRow {
  row: Row;
  provenance: RowProvenance;
}

export const ignoredLabel = -100;

export function makeRow(rolloutId: string, { triplet, reward }: RewardedCall): RecordedRow {
  const prompt = triplet.prompt.token_ids;
  const response = triplet.response.token_ids;
  const input_ids = [...prompt, ...response];
  return {
    row: {
      input_ids,
      attention_mask: input_ids.map(() => 1),
      labels: [...prompt.map(() => ignoredLabel), ...response],
      reward,
    },
    provenance: {
      rollout_id: rolloutId,
      sequence_id: triplet.metadata.sequence_id,
      response_id: triplet.metadata.response_id,
      checkpoint: triplet.metadata.checkpoint,
    },
  };
}

/** A cut row would lose the end of the response, the very part that is learned: too long means left out. */
export function isTooLong({ row }: RecordedRow, maxLength: number): boolean {
  return row.input_ids.length > maxLength;
}
