import { stringifyJson } from "../protocol/json.ts";
import { applyEdits, membersOf, removalEdits } from "../protocol/json-text.ts";
import type { RecordKind } from "../protocol/store-record.ts";
import type { Attempt, AttemptedRollout, Rollout } from "../protocol/types.ts";
import type { RecordReading } from "../store/record-reader.ts";
import {
  eachAttempt,
  eachResources,
  eachRollout,
  eachSpan,
  eachWorker,
  type RolloutFilter,
} from "./paging.ts";

/**
 * Lines `{"KIND":{…}}` of everything in a store, each after what it belongs to, so that `agl import` can read them.
 * Of a store at work, each rollout is told as it was when its turn came.
 */
export async function* wholeStore(store: RecordReading, filter: RolloutFilter): AsyncGenerator<string> {
  for await (const resources of eachResources(store)) yield recordLine("resources", stringifyJson(resources));
  for await (const rollout of eachRollout(store, filter)) yield* rolloutLines(store, rollout);
  for await (const worker of eachWorker(store)) yield recordLine("worker", stringifyJson(worker));
}

/** The latest attempt is taken from the rollout, with whose status it agrees. */
async function* rolloutLines(store: RecordReading, rollout: Rollout | AttemptedRollout) {
  const latest = "attempt" in rollout ? rollout.attempt : null;
  const { rolloutText, latestText } = splitText(stringifyJson(rollout));
  yield recordLine("rollout", rolloutText);
  if (latest === null || latest.sequence_id > 1) {
    for await (const attempt of eachAttempt(store, rollout.rollout_id)) {
      if (latest !== null && attempt.sequence_id >= latest.sequence_id) break;
      yield* attemptLines(store, attempt, stringifyJson(attempt));
    }
  }
  if (latest !== null) yield* attemptLines(store, latest, latestText);
}

async function* attemptLines(store: RecordReading, { rollout_id, attempt_id }: Attempt, text: string) {
  yield recordLine("attempt", text);
  for await (const span of eachSpan(store, rollout_id, attempt_id)) {
    yield recordLine("span", stringifyJson(span));
  }
}

/** As text, because an object taken apart loses the spelling of its numbers. */
function splitText(text: string): { rolloutText: string; latestText: string } {
  const members = membersOf(text);
  const latest = members.find(({ key }) => key === "attempt");
  const edits = removalEdits(members, (member) => member === latest);
  const latestText = latest === undefined ? "" : text.slice(latest.valueStart, latest.end);
  return { rolloutText: applyEdits(text, edits), latestText };
}

function recordLine(kind: RecordKind, text: string): string {
  return `{"${kind}":${text}}`;
}
