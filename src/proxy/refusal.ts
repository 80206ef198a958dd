import type { Refusal } from "./counts.ts";
import { errorAnswer } from "./error-answer.ts";

/** A refusal is answered at once and counted; nothing of the call reaches the model server. */
export class Refused extends Error {
  readonly reason: Refusal;
  readonly answer: Response;

  constructor(reason: Refusal, answer: Response) {
    super(reason);
    this.reason = reason;
    this.answer = answer;
  }
}

/** For now: the client may ask again. */
export function unavailable(reason: Refusal, message: string): Refused {
  return new Refused(reason, errorAnswer(503, reason, message, { retryAfterSeconds: 5 }));
}
