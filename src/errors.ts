/** The part of the system in which something broke. */
export type Boundary =
  | "configuration"
  | "store"
  | "upstream"
  | "agent"
  | "tool"
  | "engine"
  | "trainer"
  | "environment"
  | "cancelled";

/** An expected failure: printed as one line with its remedy, never as a stack trace. */
export class AglError extends Error {
  readonly boundary: Boundary;
  readonly remedy: string | undefined;
  readonly exitCode: number;

  constructor(
    boundary: Boundary,
    message: string,
    options: { remedy?: string; exitCode?: number; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "AglError";
    this.boundary = boundary;
    this.remedy = options.remedy;
    this.exitCode = options.exitCode ?? 1;
  }
}

/** A wrong flag, setting or input file: exit code 2. */
export class UsageError extends AglError {
  constructor(message: string, remedy?: string) {
    super("configuration", message, { exitCode: 2, ...(remedy === undefined ? {} : { remedy }) });
    this.name = "UsageError";
  }
}

/** What a store refuses, with the HTTP status that says why */
export class StoreRequestError extends Error {
  readonly status: 400 | 404 | 409 | 422;
  /** A sentence, or for 422 the list of `{type, loc, msg, input}`. */
  readonly detail: unknown;

  constructor(status: 400 | 404 | 409 | 422, detail: unknown) {
    super(typeof detail === "string" ? detail : JSON.stringify(detail));
    this.name = "StoreRequestError";
    this.status = status;
    this.detail = detail;
  }
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
