import type { JsonObject } from "../protocol/types.ts";
import { isObject } from "./model-request.ts";

export interface CallFailure {
  /** The server's status, when it answered. */
  status: number | null;
  type: string;
  message: string;
}

const maxReasonLength = 2_000;

/** Of an answer that came whole but is none. */
export function answerFailure(status: number, answer: JsonObject | null, text: string | null): CallFailure {
  if (isOk(status)) return noAnswer("the answer of the model server is not a JSON object");
  const error = isObject(answer?.error) ? answer.error : (answer ?? {});
  const message = typeof error.message === "string" ? error.message : (text ?? "").slice(0, maxReasonLength);
  return {
    status,
    type: `http_${status}`,
    message: `${status}: ${message.slice(0, maxReasonLength)}`,
  };
}

export function isOk(status: number): boolean {
  return status >= 200 && status < 300;
}

/** Of an error that the server reported inside its stream. */
export function streamFailure(error: unknown): CallFailure | null {
  if (error === undefined) return null;
  const message =
    isObject(error) && typeof error.message === "string" ? error.message : JSON.stringify(error);
  return { status: null, type: "upstream_stream_error", message: message.slice(0, maxReasonLength) };
}

export function noAnswer(message: string): CallFailure {
  return { status: null, type: "upstream_bad_answer", message };
}
