import type { Database } from "bun:sqlite";
import { AglError } from "../../errors.ts";
import { compactSpans } from "./span-compaction.ts";

/** "AGL1": tells a store from other SQLite files. */
const applicationId = 0x41474c31;

/** One entry per schema version, in order; released entries never change. */
const migrations: (string | ((db: Database) => void))[] = [
  `
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
  `,
  compactSpans,
  // Among 375,000 rollouts, CPU for the 100 that started last without the index: 524 ms, with it 0.1; for those of a mode
  // that none has 37 and 0.1.
  `
  CREATE INDEX rollouts_by_start ON rollouts (start_time);
  CREATE INDEX rollouts_by_mode ON rollouts (mode);
  CREATE TABLE totals (kind TEXT NOT NULL, status TEXT NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (kind, status))
    WITHOUT ROWID;
  INSERT INTO totals SELECT 'rollouts', status, count(*) FROM rollouts GROUP BY status;
  INSERT INTO totals SELECT 'attempts', '', count(*) FROM attempts;
  INSERT INTO totals SELECT 'spans', '', count(*) FROM spans;
  CREATE TRIGGER rollouts_counted AFTER INSERT ON rollouts BEGIN
    INSERT INTO totals VALUES ('rollouts', NEW.status, 1) ON CONFLICT DO UPDATE SET n = n + 1; END;
  CREATE TRIGGER rollouts_recounted AFTER UPDATE OF status ON rollouts WHEN NEW.status <> OLD.status BEGIN
    UPDATE totals SET n = n - 1 WHERE kind = 'rollouts' AND status = OLD.status;
    INSERT INTO totals VALUES ('rollouts', NEW.status, 1) ON CONFLICT DO UPDATE SET n = n + 1; END;
  CREATE TRIGGER rollouts_discounted AFTER DELETE ON rollouts BEGIN
    UPDATE totals SET n = n - 1 WHERE kind = 'rollouts' AND status = OLD.status; END;
  CREATE TRIGGER attempts_counted AFTER INSERT ON attempts BEGIN
    UPDATE totals SET n = n + 1 WHERE kind = 'attempts'; END;
  CREATE TRIGGER attempts_discounted AFTER DELETE ON attempts BEGIN
    UPDATE totals SET n = n - 1 WHERE kind = 'attempts'; END;
  CREATE TRIGGER spans_counted AFTER INSERT ON spans BEGIN
    UPDATE totals SET n = n + 1 WHERE kind = 'spans'; END;
  CREATE TRIGGER spans_discounted AFTER DELETE ON spans BEGIN
    UPDATE totals SET n = n - 1 WHERE kind = 'spans'; END;
  `,
];

export const schemaVersion = migrations.length;

/** Refuses a file that a newer agl has written, or that is no store at all. */
export function requireKnownFile(db: Database, path: string): void {
  const version = versionOf(db);
  if (version > schemaVersion) {
    throw new AglError("store", `${path} has schema version ${version}, this agl knows ${schemaVersion}`, {
      remedy: "use the agl that wrote it or a newer one, or another store file",
    });
  }
  const tables = db.query<{ n: number }, []>("SELECT count(*) AS n FROM sqlite_schema").get()?.n ?? 0;
  if (tables > 0 && readPragma(db, "application_id") !== applicationId) {
    throw new AglError("store", `${path} is a SQLite file of another program`, {
      remedy: "choose another store file",
    });
  }
}

/** For readers, which cannot bring a file to the current schema. */
export function requireReadableFile(db: Database, path: string): void {
  requireKnownFile(db, path);
  const version = versionOf(db);
  if (version === schemaVersion) return;
  const found =
    version === 0 ? "was never a complete store" : `has schema version ${version}, not ${schemaVersion}`;
  throw new AglError("store", `${path} ${found}`, {
    remedy: `open it once with \`agl store --db ${path}\`, which brings it up to date, or choose another store file`,
  });
}

/** 0 when it has no tables yet. */
export function versionOf(db: Database): number {
  return readPragma(db, "user_version");
}

/** Brings the file to the current schema, in one transaction: it is up to date afterwards, or as it was. */
export function migrate(db: Database, newStoreId: string): void {
  const found = versionOf(db);
  if (found === schemaVersion) return;
  db.transaction(() => {
    for (const migration of migrations.slice(found)) {
      if (typeof migration === "string") db.run(migration);
      else migration(db);
    }
    if (found === 0) db.run("INSERT INTO store (store_id) VALUES (?)", [newStoreId]);
    db.run(`PRAGMA user_version = ${schemaVersion}`);
  }).immediate();
}

/** Called before any table is made, so that even a half-made file is known as ours. */
export function markAsStore(db: Database): void {
  if (readPragma(db, "application_id") === applicationId) return;
  db.run(`PRAGMA application_id = ${applicationId}`);
}

function readPragma(db: Database, name: "user_version" | "application_id"): number {
  const row = db.query<Record<string, number>, []>(`PRAGMA ${name}`).get();
  return row?.[name] ?? 0;
}
