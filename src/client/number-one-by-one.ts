import { StoreRequestError } from "../errors.ts";
import { isEnded } from "../protocol/enums.ts";
import type { NumberRequest, SequenceNumber, StoreApi } from "../protocol/store-api.ts";
import type { Attempt } from "../protocol/types.ts";

type NumberSource = Pick<StoreApi, "nextSequenceId" | "queryAttempts">;

/** `nextSequenceIds` for a store that does not have it: those of a rollout one after another, the rollouts at once. */
export async function numberOneByOne(
  store: NumberSource,
  requests: NumberRequest[],
): Promise<SequenceNumber[]> {
  const answers: SequenceNumber[] = [];
  const rollouts = Map.groupBy(requests.entries(), ([, { rollout_id }]) => rollout_id);
  await Promise.all(
    [...rollouts].map(async ([rolloutId, siblings]) => {
      const attempts = await attemptsOf(store, rolloutId);
      for (const [index, { attempt_id }] of siblings) {
        const sequence_id = await store.nextSequenceId(rolloutId, attempt_id);
        answers[index] = { sequence_id, ended_at: endOf(attempts, attempt_id) };
      }
    }),
  );
  return answers;
}

async function attemptsOf(store: NumberSource, rolloutId: string): Promise<Attempt[]> {
  try {
    return (await store.queryAttempts(rolloutId)).items;
  } catch (error) {
    if (error instanceof StoreRequestError && error.status === 404) return [];
    throw error;
  }
}

function endOf(attempts: Attempt[], attemptId: string): number | null {
  const attempt = attempts.find(({ attempt_id }) => attempt_id === attemptId);
  if (attempt === undefined) return null;
  const later = attempts.filter(({ sequence_id }) => sequence_id > attempt.sequence_id);
  const ends = later.map(({ start_time }) => start_time);
  if (isEnded(attempt.status)) ends.push(attempt.end_time ?? attempt.start_time);
  return ends.length === 0 ? null : Math.min(...ends);
}
