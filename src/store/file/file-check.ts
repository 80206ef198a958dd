import type { Database } from "bun:sqlite";
import { AglError, messageOf } from "../../errors.ts";

/** Throws when the file's pages do not fit together. Without `whole`, of all tables but the spans. */
export function checkFile(db: Database, path: string, { whole }: { whole: boolean }): void {
  const checks = whole
    ? ["PRAGMA quick_check"]
    : tablesBesideSpans(db).map((name) => `PRAGMA quick_check(${name})`);
  for (const check of checks) {
    const finding = firstFinding(db, check);
    if (finding !== "ok") throw damaged(path, finding);
  }
}

/** Some damage is told in the answer, some ends the check. */
function firstFinding(db: Database, check: string): string {
  try {
    return db.query<{ quick_check: string }, []>(check).get()?.quick_check ?? "unreadable";
  } catch (error) {
    if ((error as { code?: unknown }).code === "SQLITE_CORRUPT") return messageOf(error);
    throw error;
  }
}

export function damaged(path: string, finding: string): AglError {
  return new AglError("store", `${path} is damaged: ${finding}`, {
    remedy: `keep a copy of it, and salvage what can be read with: sqlite3 ${path} .recover | sqlite3 NEW.db`,
  });
}

function tablesBesideSpans(db: Database): string[] {
  return db
    .query<{ name: string }, []>("SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'spans'")
    .all()
    .map(({ name }) => name);
}
