import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { openStore } from "../../src/store/sqlite-store.ts";
import { openStoreReader } from "../../src/store/store-reader.ts";
import { sampleSpan } from "../helpers/sample-span.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

test("what a writer has committed is there at once; the writer is not held up, and nothing can be written", async () => {
  const path = join(temporaryFolder(), "store.db");
  const store = openStore({ path });
  const { rollout_id, attempt } = await store.startRollout({ input: { x: 1 }, metadata: { n: 1 } });
  const reader = openStoreReader(path);
  for (let number = 1; number <= 3; number++) {
    await store.addSpan(sampleSpan({ rollout_id, attempt_id: attempt.attempt_id, sequence_id: number }));
    expect((await reader.querySpans({ rollout_id, attempt_id: "latest" })).total).toBe(number);
  }
  expect(await reader.getRollout(rollout_id)).toEqual(await store.getRollout(rollout_id));
  expect(await reader.queryRollouts({ limit: 1 })).toEqual(await store.queryRollouts({ limit: 1 }));
  expect(await reader.queryAttempts(rollout_id)).toEqual(await store.queryAttempts(rollout_id));
  expect(await reader.querySpans({ rollout_id, name: "x" })).toEqual(
    await store.querySpans({ rollout_id, name: "x" }),
  );
  expect(await reader.querySpans({ rollout_id: "ro-none", attempt_id: "latest" })).toMatchObject({
    total: 0,
  });
  expect(await reader.getRollout("ro-none")).toBeNull();
  await store.close();
  expect((await reader.queryRollouts({})).total).toBe(1);
  await reader.close();
});

test("an overdue attempt is not ended by looking at it", async () => {
  const path = join(temporaryFolder(), "store.db");
  let time = 1_000;
  const store = openStore({ path, now: () => (time += 0.001), scanDebounceSeconds: 0 });
  const { rollout_id } = await store.startRollout({ input: 1, config: { timeout_seconds: 5 } });
  time += 100;
  const reader = openStoreReader(path);
  expect(await reader.getRollout(rollout_id)).toMatchObject({ status: "preparing" });
  await reader.close();
  expect((await store.getRollout(rollout_id))?.status).not.toBe("preparing");
  await store.close();
});

describe("refused with what to do", () => {
  const file = (name: string) => join(temporaryFolder(), name);

  test("a file that is not there is not made", () => {
    expect(() => openStoreReader(file("none.db"))).toThrow(/there is no store file/);
  });

  test("a file that is no database", () => {
    const path = file("text.db");
    writeFileSync(path, "a text that is long enough to be none".repeat(100));
    expect(() => openStoreReader(path)).toThrow(/cannot read the store file .*not a database/);
  });

  test("a database of another program", () => {
    const path = file("other.db");
    const db = new Database(path);
    db.run("CREATE TABLE rollouts (rollout_id TEXT)");
    db.close();
    expect(() => openStoreReader(path)).toThrow(/SQLite file of another program/);
  });

  test("an empty file, and one of a later version", async () => {
    const empty = file("empty.db");
    writeFileSync(empty, "");
    expect(() => openStoreReader(empty)).toThrow(/never a complete store/);
    const later = file("later.db");
    await openStore({ path: later }).close();
    const db = new Database(later);
    db.run("PRAGMA user_version = 1000");
    db.close();
    expect(() => openStoreReader(later)).toThrow(/schema version 1000/);
  });
});
