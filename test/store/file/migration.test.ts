import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { type Logger, silentLogger } from "../../../src/log.ts";
import { copyBeforeMigration } from "../../../src/store/file/file-copy.ts";
import { schemaVersion } from "../../../src/store/file/schema.ts";
import { openStore } from "../../../src/store/sqlite-store.ts";
import { openStoreReader } from "../../../src/store/store-reader.ts";
import { sampleSpan } from "../../helpers/sample-span.ts";
import { writeStoreOfVersion1 } from "../../helpers/store-version-1.ts";
import { temporaryFolder } from "../../helpers/temporary-folder.ts";

function storeOfVersion1() {
  const path = join(temporaryFolder(), "agl.db");
  const spans = Array.from({ length: 1200 }, (_, n) =>
    sampleSpan({
      rollout_id: `ro-${n % 3}`,
      attempt_id: "at-1",
      sequence_id: 1200 - n,
      attributes: { text: `${n} ß 🎈` },
    }),
  );
  writeStoreOfVersion1(path, spans);
  const files = () => readdirSync(join(path, "..")).filter((name) => !/-(?:wal|shm)$/.test(name));
  return { path, spans, files: () => files().sort() };
}

function versionIn(path: string): unknown {
  const db = new Database(path, { readonly: true });
  const version = db.query("PRAGMA user_version").get();
  db.close();
  return version;
}

describe("a file of an older version", () => {
  test("is copied beside itself, said in the log, and keeps all it holds", async () => {
    const { path, spans, files } = storeOfVersion1();
    const said: unknown[] = [];
    const log: Logger = { ...silentLogger, warning: (message, fields) => said.push(message, fields) };
    const store = openStore({ path, log });
    const copy = `${path}.v1.backup`;
    expect(said).toEqual(["the store is brought up to date", { from: 1, to: schemaVersion, copy }]);
    expect(store.storeId).toBe("st-0123456789abcdef");
    for (const rollout_id of ["ro-0", "ro-1", "ro-2"]) {
      const { items, total } = await store.querySpans({ rollout_id });
      expect(total).toBe(400);
      expect(items).toEqual(spans.filter((span) => span.rollout_id === rollout_id).reverse());
    }
    expect(await store.statistics()).toMatchObject({
      total_rollouts: 3,
      total_attempts: 3,
      total_spans: 1200,
    });
    expect((await store.queryRollouts({ status_in: ["succeeded"], limit: 1 })).total).toBe(3);
    expect(await store.addSpan(spans[7]!)).toBeNull();
    await store.close();
    expect(files()).toEqual(["agl.db", "agl.db.v1.backup"]);
    expect(versionIn(copy)).toEqual({ user_version: 1 });
    const db = new Database(copy, { readonly: true });
    expect(db.query("SELECT count(*) AS n FROM spans").get()).toEqual({ n: 1200 });
    expect(db.query("SELECT count(*) AS n FROM holder").get()).toEqual({ n: 0 });
    db.close();
  });

  test("is not copied again once it is up to date, and a copy is never written over", async () => {
    const { path, files } = storeOfVersion1();
    writeFileSync(`${path}.v1.backup`, "an older copy");
    await openStore({ path }).close();
    await openStore({ path }).close();
    expect(files()).toEqual(["agl.db", "agl.db.v1.backup", "agl.db.v1.backup-2"]);
    expect(await Bun.file(`${path}.v1.backup`).text()).toBe("an older copy");
    expect(versionIn(`${path}.v1.backup-2`)).toEqual({ user_version: 1 });
  });

  test("stays as it was, without a copy, when it cannot be brought up to date", async () => {
    const { path, files } = storeOfVersion1();
    const db = new Database(path);
    db.run("CREATE TABLE totals (mine TEXT)");
    db.close();
    expect(() => openStore({ path })).toThrow(/table totals already exists/);
    expect(files()).toEqual(["agl.db"]);
    expect(versionIn(path)).toEqual({ user_version: 1 });
    const left = new Database(path, { readonly: true });
    expect(left.query("SELECT count(*) AS n FROM spans").get()).toEqual({ n: 1200 });
    left.close();
  });

  test("is left alone on a disk without the space for it", () => {
    const { path, files } = storeOfVersion1();
    const db = new Database(path);
    const copy = () => copyBeforeMigration(db, path, { version: 1, freeBytes: () => 1_000_000 });
    expect(copy).toThrow(new RegExp(`${basename(path)} has to be brought up to date.* there are 1.0 MB`));
    db.close();
    expect(files()).toEqual(["agl.db"]);
    expect(versionIn(path)).toEqual({ user_version: 1 });
  });

  test("is refused by readers with what to do", () => {
    const { path } = storeOfVersion1();
    expect(() => openStoreReader(path)).toThrow(/has schema version 1, not/);
  });
});

describe("a process that is killed while it brings a file up to date", () => {
  test("leaves the file for the next one, which loses nothing", async () => {
    const { path, spans, files } = storeOfVersion1();
    const original = readFileSync(path);
    const script = join(import.meta.dir, "../../helpers/store-writer.ts");
    for (const afterMs of [40, 80, 100, 120, 140, 160, 180, 220]) {
      for (const name of files()) rmSync(join(path, "..", name));
      for (const log of ["-wal", "-shm"]) rmSync(path + log, { force: true });
      writeFileSync(path, original);
      const child = Bun.spawn([process.execPath, script, path, "hold"], { stdout: "ignore" });
      await Bun.sleep(afterMs);
      child.kill("SIGKILL");
      await child.exited;
      const store = openStore({ path });
      expect((await store.statistics()).total_spans).toBe(spans.length);
      expect((await store.querySpans({ rollout_id: "ro-1" })).total).toBe(400);
      await store.close();
      expect(files().filter((name) => name.endsWith(".partial"))).toEqual([]);
      const copies = files().filter((name) => name.includes(".v1.backup"));
      expect(copies.length).toBeGreaterThan(0);
      for (const copy of copies) expect(versionIn(join(path, "..", copy))).toEqual({ user_version: 1 });
    }
  });
});
