import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { statSync } from "node:fs";
import { join } from "node:path";
import type { RolloutStatus } from "../../src/protocol/enums.ts";
import { openStore } from "../../src/store/sqlite-store.ts";
import { runAgl } from "../helpers/run-agl.ts";
import { sampleSpan } from "../helpers/sample-span.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const day = 86_400;
const statuses: RolloutStatus[] = ["succeeded", "failed", "cancelled", "running", "queuing"];

/** Five rollouts of each age, one in each state, with `spans` spans in each attempt; returns input → rollout id. */
async function storeWithHistory({ ages = [40, 10, 0], spans = 2, text = "" } = {}) {
  const folder = temporaryFolder();
  const path = join(folder, "agl.db");
  const ids = new Map<string, string>();
  for (const age of ages) {
    const start = Date.now() / 1000 - age * day - 60;
    let time = start;
    const store = openStore({ path, now: () => (time += 0.001) });
    for (const status of statuses) {
      const input = `${status} ${age}`;
      if (status === "queuing") {
        ids.set(input, (await store.enqueueRollouts([{ input }]))[0]!.rollout_id);
        continue;
      }
      const { rollout_id, attempt } = await store.startRollout({ input });
      const { attempt_id } = attempt;
      await store.addSpans(
        Array.from({ length: spans }, (_, n) =>
          sampleSpan({ rollout_id, attempt_id, sequence_id: n, attributes: { text: random(text) } }),
        ),
      );
      if (status !== "running") await store.updateRollout(rollout_id, { status });
      ids.set(input, rollout_id);
    }
    await store.close();
  }
  const prune = (...args: string[]) => runAgl(["store", "prune", "--db", "agl.db", ...args], folder);
  return { path, folder, ids, prune };
}

/** Text that does not compress to nothing. */
function random(text: string): string {
  return text === "" ? "" : Buffer.from(crypto.getRandomValues(new Uint8Array(3_000))).toString("base64");
}

async function inputsIn(path: string): Promise<unknown[]> {
  const store = openStore({ path });
  const inputs = (await store.queryRollouts({})).items.map(({ input }) => input);
  await store.close();
  return inputs;
}

describe("without --apply", () => {
  test("it says per state and age what would go, and changes nothing, also while a process has the file", async () => {
    const { path, prune } = await storeWithHistory();
    const store = openStore({ path });
    const { code, out, err } = await prune();
    expect({ code, err }).toEqual({ code: 0, err: "" });
    const lines = out.trimEnd().split("\n");
    expect(lines).toHaveLength(12);
    expect(lines[0]).toMatch(/^status +ended +rollouts +attempts +spans +stored$/);
    expect(lines.filter((line) => /^(?:failed|succeeded|cancelled) /.test(line))).toHaveLength(9);
    expect(lines.filter((line) => / (?:over 30|7 to 30) days ago +1 +1 +2 +\d/.test(line))).toHaveLength(6);
    expect(lines[10]).toMatch(/^all +9 +9 +18 +0\.0 MB$/);
    expect(lines[11]).toBe(
      `nothing was deleted: --apply deletes; process ${process.pid} has the file and would have to stop first`,
    );
    expect((await store.statistics()).total_rollouts).toBe(15);
    await store.close();
  });

  test("the choices add up", async () => {
    const { path, prune } = await storeWithHistory();
    const chosen = async (...args: string[]) => {
      const { out } = await prune("--json", ...args);
      const { file, groups } = JSON.parse(out);
      expect(file).toBe(path);
      return groups.map(({ status, ended, rollouts }: any) => `${status} ${ended} ${rollouts}`).sort();
    };
    expect(await chosen("--older-than", "30d", "--status", "failed,succeeded")).toEqual([
      "failed over 30 days ago 1",
      "succeeded over 30 days ago 1",
    ]);
    expect(await chosen("--older-than", "1w", "--status", "cancelled")).toEqual([
      "cancelled 7 to 30 days ago 1",
      "cancelled over 30 days ago 1",
    ]);
    expect(await chosen("--keep-last", "4", "--older-than", "36h")).toHaveLength(5);
    expect(await chosen("--keep-last", "9")).toEqual([]);
    expect(await chosen("--older-than", "41d")).toEqual([]);
  });
});

describe("with --apply", () => {
  test("what was chosen goes with its attempts, spans and counters; the rest stays, and so does the queue", async () => {
    const { path, ids, prune } = await storeWithHistory();
    const { code, out, err } = await prune("--older-than", "30d", "--apply");
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).toContain("3 rollouts were deleted");
    expect(await inputsIn(path)).toEqual([...ids.keys()].filter((input) => !/^[sfc].* 40$/.test(input)));
    const store = openStore({ path });
    const gone = ids.get("failed 40")!;
    expect(await store.getRollout(gone)).toBeNull();
    expect((await store.querySpans({ rollout_id: gone })).total).toBe(0);
    expect((await store.queryAttempts(gone)).total).toBe(0);
    expect((await store.querySpans({ rollout_id: ids.get("running 40")! })).total).toBe(2);
    expect(await store.statistics()).toMatchObject({
      total_rollouts: 12,
      total_attempts: 9,
      total_spans: 18,
    });
    expect((await store.queryRollouts({ status_in: ["failed"], limit: 1 })).total).toBe(2);
    expect(await store.dequeueRollouts({ limit: 10 })).toHaveLength(3);
    await store.close();
    const db = new Database(path, { readonly: true });
    const leftovers = db.query("SELECT count(*) AS n FROM sequences WHERE rollout_id = ?").get(gone);
    expect(leftovers).toEqual({ n: 0 });
    expect(db.query("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
    db.close();
  });

  test("the file becomes smaller", async () => {
    const { path, prune } = await storeWithHistory({ ages: [40, 0], spans: 200, text: "random" });
    const before = statSync(path).size;
    const { out } = await prune("--older-than", "30d", "--apply", "--json");
    const { rollouts, freedBytes, reusableBytes } = JSON.parse(out);
    expect(rollouts).toBe(3);
    expect(freedBytes).toBeGreaterThan(before / 4);
    expect(statSync(path).size).toBe(before - freedBytes);
    expect(reusableBytes).toBe(0);
  });

  test("is refused while a process has the file, whose pid it names", async () => {
    const { path, prune } = await storeWithHistory();
    const store = openStore({ path });
    const { code, out, err } = await prune("--older-than", "1d", "--apply");
    expect({ code, out }).toEqual({ code: 1, out: "" });
    expect(err).toContain(`${path} is in use by process ${process.pid}`);
    await store.close();
    expect(await inputsIn(path)).toHaveLength(15);
  });

  test("twice is as good as once", async () => {
    const { prune } = await storeWithHistory();
    await prune("--keep-last", "0", "--apply");
    const { code, out } = await prune("--keep-last", "0", "--apply");
    expect(code).toBe(0);
    expect(out).toContain("0 rollouts were deleted");
  });
});

describe("refused with what to do", () => {
  test.each<[string[], RegExp]>([
    [["--apply"], /--apply alone would delete every finished rollout\n.*--older-than/],
    [["--older-than", "30"], /Expected a number with m, h, d or w, such as 30d, not "30"/],
    [["--status", "running"], /Expected one of failed, succeeded, cancelled, not "running"/],
    [["--keep-last", "-1"], /Expected a whole number, not "-1"/],
    [["--older-then", "30d"], /unknown option '--older-then'[^]*--older-than/],
    [["--db", ":memory:"], /a store in :memory: keeps nothing/],
    [["--db", "none.db"], /there is no store file .*none\.db/],
  ])("%p", async (args, message) => {
    const { code, out, err } = await runAgl(["store", "prune", ...args], temporaryFolder());
    expect(code).not.toBe(0);
    expect(out).toBe("");
    expect(err).toMatch(message);
  });

  test("the file is the one that was named, before or after the command's own name", async () => {
    const { folder, path } = await storeWithHistory();
    const { out } = await runAgl(["store", "--db", "agl.db", "prune", "--json"], folder);
    expect(JSON.parse(out).file).toBe(path);
  });
});
