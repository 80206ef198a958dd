import { AglError, StoreRequestError, messageOf } from "../errors.ts";
import type { Logger } from "../log.ts";
import { PayloadError } from "./otlp/payload-error.ts";
import { BodyTooLarge } from "./request-body.ts";

export interface Failure {
  status: 400 | 404 | 409 | 413 | 422 | 500 | 503;
  /** What the client is told; never our internals. */
  detail: unknown;
}

/** The answer to a request that failed; what is not the client's fault is logged. */
export function failureOf(error: unknown, { path, log }: { path: string; log: Logger }): Failure {
  if (error instanceof StoreRequestError) return { status: error.status, detail: error.detail };
  if (error instanceof PayloadError) return { status: 400, detail: error.message };
  if (error instanceof BodyTooLarge) return { status: 413, detail: error.message };
  if (error instanceof AglError) {
    log.warning("the store refused a request", { path, error: error.message });
    // Also for a full disk: exporters of OpenTelemetry send again after a 503, and give up after a 507.
    const { message, remedy } = error;
    return { status: 503, detail: remedy === undefined ? message : `${message} (${remedy})` };
  }
  if (error instanceof RangeError && error.message.includes("call stack")) {
    return { status: 422, detail: "The request is nested too deeply" };
  }
  const reason = error instanceof Error ? (error.stack ?? error.message) : messageOf(error);
  log.error("a request failed", { path, error: reason });
  return { status: 500, detail: "Internal server error" };
}
