import { Database } from "bun:sqlite";
import { afterEach, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { AglError } from "../../../src/errors.ts";
import type { Logger } from "../../../src/log.ts";
import { silentLogger } from "../../../src/log.ts";
import { schemaVersion } from "../../../src/store/file/schema.ts";
import { openStore } from "../../../src/store/sqlite-store.ts";
import { temporaryFolder } from "../../helpers/temporary-folder.ts";

const folder = temporaryFolder();
let files = 0;
const newPath = () => join(folder, `store-${(files += 1)}.db`);

const children: Bun.Subprocess[] = [];
afterEach(async () => {
  for (const child of children.splice(0)) {
    child.kill("SIGKILL");
    await child.exited;
  }
});

/** A second process on the file; yields its printed lines. */
function startWriter(path: string, mode: "hold" | "write") {
  const script = join(import.meta.dir, "../../helpers/store-writer.ts");
  const child = Bun.spawn([process.execPath, script, path, mode], { stdout: "pipe", stderr: "inherit" });
  children.push(child);
  const lines = (async function* () {
    let rest = "";
    for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
      const parts = (rest + chunk).split("\n");
      rest = parts.pop()!;
      yield* parts;
    }
  })();
  return { child, lines };
}

async function refusalOf(path: string): Promise<AglError> {
  try {
    const store = openStore({ path });
    await store.close();
  } catch (error) {
    expect(error).toBeInstanceOf(AglError);
    return error as AglError;
  }
  throw new Error(`${path} was opened`);
}

describe("one file", () => {
  test("keeps everything, its id included, from one opening to the next", async () => {
    const path = join(folder, "made", "on", "demand.db");
    const first = openStore({ path });
    const [rollout] = await first.enqueueRollouts([{ input: { q: "2+2" } }]);
    await first.addResources({});
    await first.close();
    await first.close();
    const second = openStore({ path });
    expect(second.storeId).toBe(first.storeId);
    expect(await second.getRollout(rollout!.rollout_id)).toEqual(rollout!);
    expect(await second.dequeueRollouts({})).toHaveLength(1);
    await second.close();
  });

  test("is written through a write-ahead log", async () => {
    const path = newPath();
    const store = openStore({ path });
    const db = new Database(path);
    expect(db.query("PRAGMA journal_mode").get()).toEqual({ journal_mode: "wal" });
    db.close();
    await store.close();
  });

  test("of a newer agl is refused untouched", async () => {
    const path = newPath();
    await openStore({ path }).close();
    const db = new Database(path);
    db.run(`PRAGMA user_version = ${schemaVersion + 1}`);
    db.close();
    const error = await refusalOf(path);
    expect(error.message).toContain(`schema version ${schemaVersion + 1}, this agl knows ${schemaVersion}`);
    expect(error.remedy).toContain("newer");
  });

  test("of another program is refused untouched", async () => {
    const path = newPath();
    const db = new Database(path);
    db.run("CREATE TABLE recipes (name TEXT)");
    expect((await refusalOf(path)).message).toContain("another program");
    expect(db.query("SELECT name FROM sqlite_schema").all()).toEqual([{ name: "recipes" }]);
    db.close();
  });

  test("that is no database is refused", async () => {
    const path = newPath();
    writeFileSync(path, "just some text, long enough to be looked at as a header".repeat(50));
    expect((await refusalOf(path)).message).toContain(path);
  });
});

describe("two openers", () => {
  test("in one process: the second is refused", async () => {
    const path = newPath();
    const store = openStore({ path });
    expect((await refusalOf(path)).message).toBe(`${path} is in use by process ${process.pid}`);
    await store.close();
    await openStore({ path }).close();
  });

  test("in two processes: the second names the first's pid, and takes over when that dies", async () => {
    const path = newPath();
    const { child, lines } = startWriter(path, "hold");
    expect((await lines.next()).value).toBe("open");
    expect((await refusalOf(path)).message).toBe(`${path} is in use by process ${child.pid}`);
    child.kill("SIGKILL");
    await child.exited;
    await openStore({ path }).close();
  });

  test("starting together: one wins", async () => {
    const path = newPath();
    const starts = [1, 2, 3].map(() => startWriter(path, "hold"));
    const firstLines = await Promise.all(starts.map(async ({ lines }) => (await lines.next()).value!));
    expect(firstLines.filter((line) => line === "open")).toHaveLength(1);
    expect(firstLines.filter((line) => line.includes("is in use by process"))).toHaveLength(2);
  });

  test("a pid that passed to another process since holds nothing", async () => {
    const path = newPath();
    await openStore({ path }).close();
    const db = new Database(path);
    db.run("INSERT INTO holder (pid, started) VALUES (?, 'another boot:1')", [process.pid]);
    db.close();
    await openStore({ path }).close();
  });
});

describe("a process that is killed while it writes", () => {
  test("loses no acknowledged rollout, and its file is checked at the next opening", async () => {
    const path = newPath();
    const { child, lines } = startWriter(path, "write");
    const acknowledged: string[] = [];
    expect((await lines.next()).value).toBe("open");
    for await (const line of lines) {
      acknowledged.push(line);
      if (acknowledged.length === 200) child.kill("SIGKILL");
    }
    await child.exited;
    expect(acknowledged.length).toBeGreaterThanOrEqual(200);

    const warnings: string[] = [];
    const log: Logger = { ...silentLogger, warning: (message) => warnings.push(message) };
    const store = openStore({ path, log });
    expect(warnings).toEqual(["the store was not closed cleanly: checking its file"]);
    const { items } = await store.queryRollouts({ sort_by: null });
    const kept = new Set(items.map(({ rollout_id }) => rollout_id));
    expect(acknowledged.filter((id) => !kept.has(id))).toEqual([]);
    expect(await store.dequeueRollouts({ limit: 100_000 })).toHaveLength(items.length);
    await store.close();
  });

  test("a damaged file is refused in words", async () => {
    const path = newPath();
    const store = openStore({ path });
    await store.enqueueRollouts(
      Array.from({ length: 400 }, (_, input) => ({ input: `${input}`.repeat(50) })),
    );
    await store.close();
    const db = new Database(path);
    db.run("INSERT INTO holder (pid, started) VALUES (999999999, NULL)");
    db.run("PRAGMA wal_checkpoint(TRUNCATE)");
    db.close();
    const bytes = new Uint8Array(await Bun.file(path).arrayBuffer());
    bytes.fill(0x41, 4096 * 8, 4096 * 20);
    writeFileSync(path, bytes);
    const error = await refusalOf(path);
    expect(error.message).toContain("damaged");
    expect(error.remedy).toContain(path);
    expect((await refusalOf(path)).message).toContain("damaged");
  });
});

test("a folder in the place of the file is called that", () => {
  expect(() => openStore({ path: temporaryFolder() })).toThrow(
    /cannot open the store file .*: it is a folder/,
  );
});
