import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Logger, silentLogger } from "../../../src/log.ts";
import { checkFile } from "../../../src/store/file/file-check.ts";
import { claimFile } from "../../../src/store/file/holder.ts";
import { openStore } from "../../../src/store/sqlite-store.ts";
import { sampleSpan } from "../../helpers/sample-span.ts";
import { temporaryFolder } from "../../helpers/temporary-folder.ts";

async function storeFile(): Promise<string> {
  const path = join(temporaryFolder(), "agl.db");
  const store = openStore({ path });
  const { rollout_id, attempt } = await store.startRollout({ input: 1 });
  const { attempt_id } = attempt;
  await store.addSpans(Array.from({ length: 300 }, () => sampleSpan({ rollout_id, attempt_id })));
  await store.enqueueRollouts(Array.from({ length: 300 }, (_, n) => ({ input: `${n}`.repeat(40) })));
  await store.close();
  return path;
}

/** Overwrites a page in the middle of a table. */
function damage(path: string, table: string): void {
  const db = new Database(path);
  const page = db
    .query<{ pageno: number }, [string]>(
      "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY pageno LIMIT 1 OFFSET 1",
    )
    .get(table)!.pageno;
  db.close();
  const bytes = readFileSync(path);
  bytes.fill(0x41, (page - 1) * 4096, page * 4096);
  writeFileSync(path, bytes);
}

function check(path: string, whole: boolean): () => void {
  return () => {
    const db = new Database(path, { readonly: true });
    try {
      checkFile(db, path, { whole });
    } finally {
      db.close();
    }
  };
}

describe("the check of a file", () => {
  test("finds a damaged table of spans only when it reads the whole", async () => {
    const path = await storeFile();
    expect(check(path, true)).not.toThrow();
    damage(path, "spans");
    expect(check(path, true)).toThrow(/agl\.db is damaged/);
    expect(check(path, false)).not.toThrow();
  });

  test("finds any other damaged table in either case", async () => {
    const path = await storeFile();
    damage(path, "rollouts");
    for (const whole of [true, false]) expect(check(path, whole)).toThrow(/agl\.db is damaged/);
  });
});

describe("a file whose process died", () => {
  const claimAfter = (started: string | null) => {
    const db = new Database(":memory:");
    claimFile(db, ":memory:");
    db.run("UPDATE holder SET pid = 999999999, started = ?", [started]);
    const claim = claimFile(db, ":memory:");
    db.close();
    return claim;
  };

  test("is suspected of more when the machine stopped as well, or may have", () => {
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    expect(claimAfter(`${boot}:1`)).toEqual({ uncleanStop: true, machineRestarted: false });
    expect(claimAfter("another boot:1")).toEqual({ uncleanStop: true, machineRestarted: true });
    expect(claimAfter(null)).toEqual({ uncleanStop: true, machineRestarted: true });
  });

  test("and that was damaged is refused with what to do, again and again", async () => {
    const path = await storeFile();
    damage(path, "spans");
    const db = new Database(path);
    db.run("INSERT INTO holder (pid, started) VALUES (999999999, 'another boot:1')");
    db.close();
    const said: unknown[] = [];
    const log: Logger = { ...silentLogger, warning: (message, fields) => said.push([message, fields]) };
    for (let attempt = 0; attempt < 2; attempt += 1) {
      expect(() => openStore({ path, log })).toThrow(
        expect.objectContaining({
          message: expect.stringContaining("agl.db is damaged"),
          remedy: expect.stringContaining(".recover"),
        }),
      );
    }
    expect(said[0]).toEqual(["the store was not closed cleanly: checking its file", { path, whole: true }]);
  });
});
