import { Database } from "bun:sqlite";
import type { Span } from "../../src/protocol/types.ts";

/** The schema of the first version, as its files have it. */
const tables = `
  PRAGMA application_id = 1095191601;
  CREATE TABLE holder (pid INTEGER NOT NULL, started TEXT);
  CREATE TABLE store (store_id TEXT NOT NULL);
  CREATE TABLE rollouts (
    row INTEGER PRIMARY KEY, rollout_id TEXT NOT NULL UNIQUE, input TEXT NOT NULL,
    start_time REAL NOT NULL, end_time REAL, mode TEXT, resources_id TEXT, status TEXT NOT NULL,
    config TEXT NOT NULL, metadata TEXT, attempt_count INTEGER NOT NULL);
  CREATE INDEX rollouts_by_status ON rollouts (status);
  CREATE TABLE attempts (
    row INTEGER PRIMARY KEY, rollout_id TEXT NOT NULL, attempt_id TEXT NOT NULL, sequence_id INTEGER NOT NULL,
    start_time REAL NOT NULL, end_time REAL, status TEXT NOT NULL, worker_id TEXT,
    last_heartbeat_time REAL, metadata TEXT);
  CREATE UNIQUE INDEX attempts_by_id ON attempts (rollout_id, attempt_id);
  CREATE UNIQUE INDEX attempts_by_sequence ON attempts (rollout_id, sequence_id);
  CREATE TABLE queue (position INTEGER PRIMARY KEY, rollout_id TEXT NOT NULL UNIQUE);
  CREATE TABLE resources (
    row INTEGER PRIMARY KEY, resources_id TEXT NOT NULL UNIQUE, create_time REAL NOT NULL,
    update_time REAL NOT NULL, version INTEGER NOT NULL, resources TEXT NOT NULL, written INTEGER NOT NULL);
  CREATE INDEX resources_by_writing ON resources (written);
  CREATE TABLE spans (
    row INTEGER PRIMARY KEY, rollout_id TEXT NOT NULL, attempt_id TEXT NOT NULL, span_id TEXT NOT NULL,
    sequence_id INTEGER NOT NULL, trace_id TEXT NOT NULL, parent_id TEXT, name TEXT NOT NULL,
    status_code TEXT NOT NULL, start_time REAL, end_time REAL, json TEXT NOT NULL);
  CREATE UNIQUE INDEX spans_by_id ON spans (rollout_id, attempt_id, span_id);
  CREATE INDEX spans_by_sequence ON spans (rollout_id, sequence_id);
  CREATE TABLE sequences (rollout_id TEXT PRIMARY KEY, last INTEGER NOT NULL);
  CREATE TABLE workers (
    row INTEGER PRIMARY KEY, worker_id TEXT NOT NULL UNIQUE, status TEXT NOT NULL, heartbeat_stats TEXT,
    last_heartbeat_time REAL, last_dequeue_time REAL, last_busy_time REAL, last_idle_time REAL,
    current_rollout_id TEXT, current_attempt_id TEXT);
  INSERT INTO store VALUES ('st-0123456789abcdef');
  PRAGMA user_version = 1;`;

const config = `{"timeout_seconds":null,"unresponsive_seconds":null,"max_attempts":1,"retry_condition":[]}`;

/** A file as the first version left it: for each span its rollout, succeeded, and its attempt. */
export function writeStoreOfVersion1(path: string, spans: readonly Span[]): void {
  const db = new Database(path, { create: true });
  db.run("PRAGMA journal_mode = WAL");
  db.run(tables);
  db.transaction(() => {
    for (const span of spans) writeSpan(db, span);
  })();
  db.close();
}

function writeSpan(db: Database, span: Span): void {
  const { rollout_id, attempt_id } = span;
  db.query(
    `INSERT OR IGNORE INTO rollouts
      (rollout_id, input, start_time, end_time, status, config, metadata, attempt_count)
      VALUES (?, '{"n":1.0}', 1, 2, 'succeeded', ?, '{}', 1)`,
  ).run(rollout_id, config);
  db.query(
    `INSERT OR IGNORE INTO attempts (rollout_id, attempt_id, sequence_id, start_time, end_time, status)
      VALUES (?, ?, 1, 1, 2, 'succeeded')`,
  ).run(rollout_id, attempt_id);
  db.query(
    `INSERT INTO spans (rollout_id, attempt_id, span_id, sequence_id, trace_id, parent_id, name, status_code,
      start_time, end_time, json) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  ).run(
    rollout_id,
    attempt_id,
    span.span_id,
    span.sequence_id,
    span.trace_id,
    span.parent_id,
    span.name,
    span.status.status_code,
    span.start_time,
    span.end_time,
    JSON.stringify(span),
  );
}
