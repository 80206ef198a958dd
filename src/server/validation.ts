import * as v from "valibot";
import { StoreRequestError } from "../errors.ts";
import { stringifyJson } from "../protocol/json.ts";

export interface ValidationDetail {
  type: string;
  loc: (string | number)[];
  msg: string;
  input: unknown;
}

/** In a request of more values only the first problem is looked for: all of them could outgrow it manyfold. */
const mostValuesListed = 10_000;
const mostDetails = 100;
const longestInput = 4096;
const longestMessage = 500;

/** The checked value, or a 422 that lists the problems where upstream's does. */
export function check<Schema extends v.GenericSchema>(
  schema: Schema,
  value: unknown,
  place: "body" | "query",
): v.InferOutput<Schema> {
  const result = parse(schema, value);
  if (result.success) return result.output;
  throw new StoreRequestError(422, detailsOf(result.issues, [place]));
}

/** As valibot's `safeParse`, with a bound on the problems. */
export function parse<Schema extends v.GenericSchema>(
  schema: Schema,
  value: unknown,
): v.SafeParseResult<Schema> {
  const result = v.safeParse(schema, value, { abortEarly: true });
  return result.success || !hasFewValues(value) ? result : v.safeParse(schema, value);
}

export function detailsOf(
  issues: readonly v.BaseIssue<unknown>[],
  place: (string | number)[],
): ValidationDetail[] {
  const details = issues.slice(0, mostDetails).map((issue) => detailOf(issue, place));
  const more = issues.length - details.length;
  const rest = {
    type: "too_many_errors",
    loc: place,
    msg: `${more} more problems are not listed`,
    input: null,
  };
  return more > 0 ? [...details, rest] : details;
}

function detailOf(issue: v.BaseIssue<unknown>, place: (string | number)[]): ValidationDetail {
  const path = issue.path ?? [];
  const loc = [...place, ...path.map((item) => item.key as string | number)];
  // A custom check sees an absent member as undefined, too.
  const missing = issue.received === "undefined" || (issue.input === undefined && issue.kind === "schema");
  const ofUnion = issue.type === "variant";
  if (!missing) {
    const type = ofUnion ? "union_tag_invalid" : `${issue.type}_type`;
    return { type, loc, msg: issue.message.slice(0, longestMessage), input: shortened(issue.input) };
  }
  const type = ofUnion ? "union_tag_not_found" : "missing";
  return { type, loc, msg: "Field required", input: shortened(path.at(-1)?.input ?? null) };
}

function shortened(input: unknown): unknown {
  return stringifyJson(input).length > longestInput ? "(too long to be repeated)" : input;
}

function hasFewValues(value: unknown): boolean {
  const pending = [value];
  for (let left = mostValuesListed; pending.length > 0;) {
    const next = pending.pop();
    if (typeof next !== "object" || next === null) continue;
    const children = Array.isArray(next) ? next : Object.values(next);
    left -= children.length;
    if (left < 0) return false;
    pending.push(...children);
  }
  return true;
}
