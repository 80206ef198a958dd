export interface AttemptIds {
  rolloutId: string;
  attemptId: string;
}

/** The two ids as one text. */
export function attemptKey({ rolloutId, attemptId }: AttemptIds): string {
  return `${rolloutId.length} ${rolloutId} ${attemptId}`;
}
