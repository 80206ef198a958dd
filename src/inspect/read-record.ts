import * as v from "valibot";
import { messageOf } from "../errors.ts";
import { isJsonObject, parseJson } from "../protocol/json.ts";
import { inOrderOf } from "../protocol/member-order.ts";
import { recordSchemas } from "../protocol/record-schemas.ts";
import { type RecordKind, recordKinds, type StoreRecord } from "../protocol/store-record.ts";
import type { AttemptedRollout, JsonObject } from "../protocol/types.ts";

/** A line that cannot be taken, and why. */
export class LineProblem extends Error {}

/**
 * The records of a line: `{"span": {…}}`, as `agl export all` writes it, or the object alone, as a store sends it.
 * A rollout that comes with its latest attempt is two.
 */
export function readRecords(text: string): StoreRecord[] {
  const given = parseLine(text);
  const kind = wrappedKind(given) ?? bareKind(given);
  const value = wrappedKind(given) === undefined ? given : given[kind];
  const result = v.safeParse(recordSchemas[kind], value);
  if (!result.success) {
    throw new LineProblem(`${kind}: ${result.issues.map(describeIssue).slice(0, 5).join("; ")}`);
  }
  const record = { kind, value: inOrderOf(value, result.output) } as StoreRecord;
  return record.kind === "rollout" ? withoutAttempt(record.value as AttemptedRollout) : [record];
}

function parseLine(text: string): JsonObject {
  let given: unknown;
  try {
    given = parseJson(text);
  } catch (error) {
    throw new LineProblem(`is not JSON (${messageOf(error)}): ${text.slice(0, 80)}`);
  }
  if (isJsonObject(given)) return given;
  throw new LineProblem(`expected a JSON object, not ${text.slice(0, 80)}`);
}

function wrappedKind(given: JsonObject): RecordKind | undefined {
  const [name, ...others] = Object.keys(given);
  return others.length > 0 ? undefined : recordKinds.find((kind) => kind === name);
}

/** By the members that only this kind has. */
function bareKind(given: JsonObject): RecordKind {
  const has = (...names: string[]) => names.every((name) => Object.hasOwn(given, name));
  if (has("span_id")) return "span";
  if (has("input_ids", "labels")) throw derived("row");
  if (has("prompt", "response")) throw derived("triplet");
  if (has("messages", "tools")) throw derived("conversation");
  if (has("resources_id", "resources")) return "resources";
  if (has("rollout_id", "input")) return "rollout";
  if (has("attempt_id", "sequence_id")) return "attempt";
  if (has("worker_id", "last_dequeue_time")) return "worker";
  const names = Object.keys(given).slice(0, 8).join(", ");
  throw new LineProblem(
    `is neither resources nor a rollout, an attempt, a span or a worker; its members are: ${names || "none"}`,
  );
}

function derived(kind: "row" | "triplet" | "conversation"): LineProblem {
  return new LineProblem(
    `is a ${kind}, which is made anew from spans whenever it is asked for: import what` +
      " `agl export all` writes of its store instead",
  );
}

function withoutAttempt({ attempt, ...value }: Partial<AttemptedRollout>): StoreRecord[] {
  const rollout = { kind: "rollout", value } as StoreRecord;
  return attempt === undefined ? [rollout] : [rollout, { kind: "attempt", value: attempt }];
}

function describeIssue(issue: v.BaseIssue<unknown>): string {
  const field = `field ${v.getDotPath(issue) ?? ""}`;
  if (issue.input === undefined) return `${field}: is missing`;
  const message = issue.message.replace(/^Invalid \w+: /, "");
  if (message.includes(" but received ")) return `${field}: ${message.replace("received", "it is")}`;
  return `${field}: ${message}, not ${JSON.stringify(issue.input)?.slice(0, 80)}`;
}
