import { Database } from "bun:sqlite";
import { closeSync, fdatasyncSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { twentyAttributes } from "./closed-loop.ts";
import { newSpanId, spanBody } from "./span-bodies.ts";

const bareTable = `
  CREATE TABLE spans (
    row INTEGER PRIMARY KEY, rollout_id TEXT NOT NULL, attempt_id TEXT NOT NULL, span_id TEXT NOT NULL,
    sequence_id INTEGER NOT NULL, trace_id TEXT NOT NULL, parent_id TEXT, name TEXT NOT NULL,
    status_code TEXT NOT NULL, start_time REAL, end_time REAL, json TEXT NOT NULL);
  CREATE UNIQUE INDEX spans_by_id ON spans (rollout_id, attempt_id, span_id);
  CREATE INDEX spans_by_sequence ON spans (rollout_id, sequence_id);`;

/**
 * Rows a second of bare `bun:sqlite`: a table of spans with a key and an order, prepared values, nothing parsed and
 * nothing checked, `perCommit` rows a transaction, as durable as the store's.
 */
export async function bareInserts(job: { folder: string; seconds: number; perCommit: number }) {
  const path = join(job.folder, `bare-${newSpanId()}.db`);
  const db = new Database(path, { strict: true });
  db.run("PRAGMA journal_mode = WAL");
  db.run("PRAGMA synchronous = FULL");
  db.run(bareTable);
  const insert = db.prepare("INSERT INTO spans VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  const commit = db.transaction((batch: (string | number | null)[][]) => {
    for (const row of batch) insert.run(...row);
  });
  let rows = 0;
  let insertingMs = 0;
  for (const end = performance.now() + job.seconds * 1000; performance.now() < end; rows += job.perCommit) {
    const batch = Array.from({ length: job.perCommit }, (_, index) => bareRow(rows + index));
    const started = performance.now();
    commit.immediate(batch);
    insertingMs += performance.now() - started;
  }
  db.close();
  for (const suffix of ["", "-wal", "-shm"]) rmSync(path + suffix, { force: true });
  return { rows, seconds: insertingMs / 1000 };
}

function bareRow(index: number): (string | number | null)[] {
  const attributes = twentyAttributes();
  const rolloutId = `ro-${(index % 64).toString().padStart(12, "0")}`;
  const [attemptId, spanId, name] = ["at-01234567", newSpanId(), "openai.chat.completion"];
  const json = spanBody({
    rolloutId,
    attemptId,
    sequenceId: index,
    spanId,
    name,
    attributes: attributes[index % attributes.length]!,
  });
  const traceId = spanId + spanId;
  const times = [1766538002.512, 1766538003.25];
  return [rolloutId, attemptId, spanId, index, traceId, null, name, "OK", ...times, json];
}

/** Times of `fdatasync` after each of many appended blocks of 4 KB. */
export async function syncTimes(job: { folder: string; seconds: number }): Promise<number[]> {
  const path = join(job.folder, `sync-${newSpanId()}`);
  const file = openSync(path, "w");
  const block = Buffer.alloc(4096, 1);
  const times: number[] = [];
  for (const end = performance.now() + job.seconds * 1000; performance.now() < end;) {
    writeSync(file, block);
    const started = performance.now();
    fdatasyncSync(file);
    times.push(performance.now() - started);
  }
  closeSync(file);
  rmSync(path);
  return times;
}
