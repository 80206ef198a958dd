import { StoreRequestError } from "../errors.ts";

/** W-18: what a write to an id that does not exist is answered with. */
export function unknownRollout(rolloutId: string): StoreRequestError {
  return new StoreRequestError(404, `Rollout ${rolloutId} not found`);
}

export function unknownAttempt(rolloutId: string, attemptId: string): StoreRequestError {
  return new StoreRequestError(404, `Attempt ${attemptId} not found in rollout ${rolloutId}`);
}
