import { StoreRequestError } from "../errors.ts";
import { parseJson, stringifyJson } from "../protocol/json.ts";
import { nameOf, type StoreRecord } from "../protocol/store-record.ts";
import type { Attempt, ResourcesUpdate, Rollout, Span, Worker } from "../protocol/types.ts";
import { defaultConfig } from "./rules/lifecycle.ts";
import type { AttemptRow, ResourcesRow, RolloutRow, WorkerRow } from "./tables/rows.ts";
import type { Tables } from "./tables/tables.ts";
import { unknownAttempt, unknownRollout } from "./unknown-ids.ts";

/** `kept`: the store knows this worker in another state, which is as good. */
export type RecordFate = "imported" | "present" | "kept";

/** The first member in which two things differ. */
interface Difference {
  name: string;
  there: unknown;
  here: unknown;
}

/** Stores whole records as they are: no rule of the life cycle runs, and no clock. Called inside a transaction. */
export class RecordWrites {
  readonly #tables: Tables;

  constructor(tables: Tables) {
    this.#tables = tables;
  }

  /** Refuses, with a 409, what is there with other content and, with a 404, what belongs to nothing. */
  write(record: StoreRecord): RecordFate {
    switch (record.kind) {
      case "resources":
        return this.#writeResources(record, resourcesRow(record.value));
      case "rollout":
        return this.#writeRollout(record, rolloutRow(record.value));
      case "attempt":
        return this.#writeAttempt(record, attemptRow(record.value));
      case "span":
        return this.#writeSpan(record, record.value);
      case "worker":
        return this.#writeWorker(workerRow(record.value));
    }
  }

  #writeResources(record: StoreRecord, row: ResourcesRow): RecordFate {
    const there = this.#tables.resources.get(row.resources_id);
    if (there !== null) return same(record, difference(there, row));
    this.#tables.resources.insert(row);
    return "imported";
  }

  /** One that waits for a runner joins the tail of the queue. */
  #writeRollout(record: StoreRecord, row: RolloutRow): RecordFate {
    const there = this.#tables.rollouts.get(row.rollout_id);
    const { attempt_count } = there ?? row;
    if (there !== null) return same(record, difference(there, { ...row, attempt_count }));
    this.#tables.rollouts.insert(row);
    return "imported";
  }

  #writeAttempt(record: StoreRecord, row: AttemptRow): RecordFate {
    const there = this.#tables.attempts.get(row.rollout_id, row.attempt_id);
    if (there !== null) return same(record, difference(there, row));
    const rollout = this.#tables.rollouts.get(row.rollout_id);
    if (rollout === null) throw unknownRollout(row.rollout_id);
    const rival = this.#tables.attempts.bySequence(row.rollout_id, row.sequence_id);
    if (rival !== null) {
      const detail = `${nameOf(record)} is number ${row.sequence_id}, as ${rival.attempt_id} is in the store`;
      throw new StoreRequestError(409, detail);
    }
    this.#tables.attempts.insert(row);
    if (row.sequence_id > rollout.attempt_count) {
      this.#tables.rollouts.setAttemptCount(row.rollout_id, row.sequence_id);
    }
    return "imported";
  }

  #writeSpan(record: StoreRecord, span: Span): RecordFate {
    const { rollout_id, attempt_id, span_id } = span;
    if (this.#tables.attempts.get(rollout_id, attempt_id) === null) {
      const known = this.#tables.rollouts.get(rollout_id) !== null;
      throw known ? unknownAttempt(rollout_id, attempt_id) : unknownRollout(rollout_id);
    }
    if (this.#tables.spans.insert(span)) {
      this.#tables.spans.raiseSequence(rollout_id, span.sequence_id);
      return "imported";
    }
    const json = this.#tables.spans.list({ rollout_id, attempt_id, span_id }).rows[0]!.json;
    if (json === stringifyJson(span)) return "present";
    return same(record, difference(parseJson(json) as object, span));
  }

  #writeWorker(row: WorkerRow): RecordFate {
    const there = this.#tables.workers.get(row.worker_id);
    if (there !== null) return difference(there, row) === undefined ? "present" : "kept";
    this.#tables.workers.change(row.worker_id, () => row);
    return "imported";
  }
}

function resourcesRow({ resources, ...row }: ResourcesUpdate): ResourcesRow {
  return { ...row, resources: stringifyJson(resources) };
}

function rolloutRow({ input, config, metadata, ...row }: Rollout): RolloutRow {
  return {
    ...row,
    input: stringifyJson(input),
    config: stringifyJson({ ...defaultConfig, ...config }),
    metadata: textOf(metadata),
    attempt_count: 0,
  };
}

function attemptRow({ metadata, ...row }: Attempt): AttemptRow {
  return { ...row, metadata: textOf(metadata) };
}

function workerRow({ heartbeat_stats, ...row }: Worker): WorkerRow {
  return { ...row, heartbeat_stats: textOf(heartbeat_stats) };
}

function textOf(value: object | null): string | null {
  return value === null ? null : stringifyJson(value);
}

function same(record: StoreRecord, found: Difference | undefined): RecordFate {
  if (found === undefined) return "present";
  const [there, here] = [shown(found.there), shown(found.here)];
  throw new StoreRequestError(
    409,
    `${nameOf(record)} is in the store with another ${found.name}: ${there} there, ${here} here`,
  );
}

function difference(there: object, here: object): Difference | undefined {
  const [one, other] = [there, here] as { [name: string]: unknown }[] as [any, any];
  const names = new Set([...Object.keys(one), ...Object.keys(other)]);
  const name = [...names].find((member) => textIn(one[member]) !== textIn(other[member]));
  return name === undefined ? undefined : { name, there: one[name], here: other[name] };
}

function textIn(value: unknown): string | undefined {
  return value === undefined ? undefined : stringifyJson(value);
}

function shown(value: unknown): string {
  const text = typeof value === "string" ? value : (textIn(value) ?? "nothing");
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}
