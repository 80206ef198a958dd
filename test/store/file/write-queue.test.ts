import { Database } from "bun:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { AglError } from "../../../src/errors.ts";
import { WriteQueue } from "../../../src/store/file/write-queue.ts";

let db: Database;
beforeEach(() => {
  db = new Database(":memory:");
  db.run("CREATE TABLE numbers (n INTEGER UNIQUE)");
});
afterEach(() => db.close());

const stored = () =>
  db
    .query<{ n: number }, []>("SELECT n FROM numbers ORDER BY n")
    .all()
    .map(({ n }) => n);

describe("grouped commits", () => {
  test("the writes of one tick share a commit and are answered after it", async () => {
    let commits = 0;
    const writes = new WriteQueue(db, { onCommit: () => (commits += 1) });
    const insert = (n: number) =>
      writes.submit(() => db.run("INSERT INTO numbers VALUES (?)", [n]).changes + n);
    const answers = [insert(1), insert(2), insert(3)];
    expect(stored()).toEqual([]);
    expect(await Promise.all(answers)).toEqual([2, 3, 4]);
    expect(db.inTransaction).toBe(false);
    expect(stored()).toEqual([1, 2, 3]);
    expect(commits).toBe(1);
  });

  test("a write that throws is rolled back alone, in whole", async () => {
    const writes = new WriteQueue(db);
    const insert = (...numbers: number[]) =>
      writes.submit(() => {
        for (const n of numbers) db.run("INSERT INTO numbers VALUES (?)", [n]);
        if (numbers.includes(13)) throw new Error("unlucky");
      });
    const outcomes = await Promise.allSettled([insert(1), insert(2, 13), insert(5, 1), insert(3)]);
    expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "rejected", "fulfilled"]);
    expect(stored()).toEqual([1, 3]);
    expect(outcomes[1]).toMatchObject({ reason: new Error("unlucky") });
    expect((outcomes[2] as PromiseRejectedResult).reason).toBeInstanceOf(AglError);
  });

  test("what a failed write noted is forgotten", async () => {
    const journal: string[] = [];
    const seen: string[] = [];
    const writes = new WriteQueue(db, { journal, onCommit: (entries) => seen.push(...entries) });
    const note = (name: string, fails = false) =>
      writes.submit(() => {
        journal.push(name);
        if (fails) throw new Error(name);
      });
    await Promise.allSettled([note("a"), note("b", true), note("c")]);
    expect(seen).toEqual(["a", "c"]);
    expect(journal).toEqual([]);
  });

  test("when the commit is impossible everybody hears of it", async () => {
    const writes = new WriteQueue(db);
    db.run("PRAGMA query_only = 1");
    const attempts = [1, 2].map((n) => writes.submit(() => db.run("INSERT INTO numbers VALUES (?)", [n])));
    for (const outcome of await Promise.allSettled(attempts)) {
      expect(outcome).toMatchObject({ status: "rejected", reason: { boundary: "store" } });
    }
    db.run("PRAGMA query_only = 0");
    await writes.submit(() => db.run("INSERT INTO numbers VALUES (7)"));
    expect(stored()).toEqual([7]);
  });

  test("a full disk refuses the writes of that commit, and the queue goes on", async () => {
    const writes = new WriteQueue(db);
    db.run("CREATE TABLE texts (t TEXT)");
    db.run("PRAGMA max_page_count = 20");
    const insert = (bytes: number) =>
      writes.submit(() => db.run("INSERT INTO texts VALUES (?)", ["x".repeat(bytes)]));
    await expect(insert(1_000_000)).rejects.toMatchObject({ boundary: "store" });
    await insert(10);
    expect(db.query("SELECT t FROM texts").all()).toEqual([{ t: "x".repeat(10) }]);
  });

  test("it refuses more than it may hold, and takes writes again afterwards", async () => {
    const writes = new WriteQueue(db, { maxPending: 2 });
    const answers = [1, 2, 3].map((n) => writes.submit(() => n));
    expect((await Promise.allSettled(answers)).map(({ status }) => status)).toEqual([
      "fulfilled",
      "fulfilled",
      "rejected",
    ]);
    expect(await writes.submit(() => 4)).toBe(4);
  });

  test("a flood is split into several commits, in order", async () => {
    let commits = 0;
    const writes = new WriteQueue(db, { onCommit: () => (commits += 1) });
    const order: number[] = [];
    await Promise.all(Array.from({ length: 2000 }, (_, n) => writes.submit(() => order.push(n))));
    expect(order).toEqual(Array.from({ length: 2000 }, (_, n) => n));
    expect(commits).toBeGreaterThan(1);
  });

  test("flush commits at once", () => {
    const writes = new WriteQueue(db);
    void writes.submit(() => db.run("INSERT INTO numbers VALUES (1)"));
    writes.flush();
    expect(stored()).toEqual([1]);
  });
});

describe("answers wait for the disk", () => {
  /** A log whose syncs end when the test says so. */
  function slowLog() {
    const syncs: ((error: Error | null) => void)[] = [];
    return {
      sync: (done: (error: Error | null) => void) => void syncs.push(done),
      syncNow: () => {},
      end: (error: Error | null = null) => syncs.shift()!(error),
      get running() {
        return syncs.length;
      },
    };
  }
  const tick = () => Bun.sleep(5);

  function writing(log: ReturnType<typeof slowLog>) {
    const answered: number[] = [];
    const writes = new WriteQueue(db, { log });
    const insert = (n: number) =>
      writes.submit(() => db.run("INSERT INTO numbers VALUES (?)", [n])).then(() => answered.push(n));
    return { writes, insert, answered };
  }

  test("a commit is answered after its sync; those made meanwhile share the next one", async () => {
    const log = slowLog();
    const { insert, answered } = writing(log);
    void insert(1);
    await tick();
    void insert(2);
    await tick();
    void insert(3);
    await tick();
    expect({ stored: stored(), answered, running: log.running }).toEqual({
      stored: [1, 2, 3],
      answered: [],
      running: 1,
    });
    log.end();
    await tick();
    expect({ answered, running: log.running }).toEqual({ answered: [1], running: 1 });
    log.end();
    await tick();
    expect({ answered, running: log.running }).toEqual({ answered: [1, 2, 3], running: 0 });
  });

  test("a read waits for the commits that it may have seen, and for no later ones", async () => {
    const log = slowLog();
    const { writes, insert } = writing(log);
    let settled = 0;
    await writes.settled();
    void insert(1);
    await tick();
    void writes.settled().then(() => (settled += 1));
    void insert(2);
    await tick();
    void writes.settled().then(() => (settled += 10));
    expect(settled).toBe(0);
    log.end();
    await tick();
    expect(settled).toBe(1);
    log.end();
    await tick();
    expect({ settled, running: log.running }).toEqual({ settled: 11, running: 0 });
  });

  test("after a sync that failed nothing is accepted any more", async () => {
    const log = slowLog();
    const { writes, insert } = writing(log);
    const [first, second] = [insert(1), insert(2)];
    await tick();
    const seen = writes.settled();
    log.end(new Error("EIO: i/o error"));
    const outcomes = await Promise.allSettled([first, second, seen, insert(3)]);
    for (const outcome of outcomes) {
      expect(outcome).toMatchObject({ status: "rejected", reason: { boundary: "store" } });
      expect((outcome as PromiseRejectedResult).reason.message).toContain("EIO: i/o error");
    }
  });

  test("a flush does not wait for a sync under way", async () => {
    const log = slowLog();
    const { writes, insert, answered } = writing(log);
    void insert(1);
    await tick();
    void insert(2);
    writes.flush();
    await tick();
    expect(answered).toEqual([1, 2]);
    log.end();
    await tick();
    expect(answered).toEqual([1, 2]);
  });

  test("writes that the disk has not taken count among those that wait", async () => {
    const log = slowLog();
    const writes = new WriteQueue(db, { log, maxPending: 1 });
    const first = writes.submit(() => 1);
    await tick();
    await expect(writes.submit(() => 2)).rejects.toMatchObject({ boundary: "store" });
    log.end();
    expect(await first).toBe(1);
  });
});

test("what a commit calls for is part of it", async () => {
  const journal: string[] = [];
  const served: unknown[] = [];
  let commits = 0;
  const writes = new WriteQueue(db, {
    journal,
    onCommit: () => (commits += 1),
    follow: (entries) => ({
      run: () => entries.length,
      resolve: (value) => served.push(value),
      reject: () => {},
    }),
  });
  await writes.submit(() => void journal.push("a", "b"));
  expect({ served, commits }).toEqual({ served: [2], commits: 1 });
});
