import * as v from "valibot";
import { StoreRequestError } from "../errors.ts";

export interface ValidationDetail {
  type: string;
  loc: (string | number)[];
  msg: string;
  input: unknown;
}

/** The checked value, or a 422 that lists every problem where upstream's does. */
export function check<Schema extends v.GenericSchema>(
  schema: Schema,
  value: unknown,
  place: "body" | "query",
): v.InferOutput<Schema> {
  const result = v.safeParse(schema, value);
  if (result.success) return result.output;
  throw new StoreRequestError(422, detailsOf(result.issues, [place]));
}

export function detailsOf(
  issues: readonly v.BaseIssue<unknown>[],
  place: (string | number)[],
): ValidationDetail[] {
  return issues.map((issue) => {
    const path = issue.path ?? [];
    const loc = [...place, ...path.map((item) => item.key as string | number)];
    // A custom check sees an absent member as undefined, too.
    const missing = issue.received === "undefined" || (issue.input === undefined && issue.kind === "schema");
    if (!missing) return { type: `${issue.type}_type`, loc, msg: issue.message, input: issue.input };
    return { type: "missing", loc, msg: "Field required", input: path.at(-1)?.input ?? null };
  });
}
