import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { openStore } from "../../src/store/sqlite-store.ts";
import { openStoreReader, type StoreReading } from "../../src/store/store-reader.ts";
import { memoryStore } from "../helpers/memory-store.ts";
import { sampleSpan } from "../helpers/sample-span.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

async function rolloutWithSpans(count: number) {
  const store = memoryStore({ scanDebounceSeconds: 1000 });
  const { rollout_id, attempt } = await store.startRollout({ input: 1 });
  const ids = { rollout_id, attempt_id: attempt.attempt_id };
  const spans = Array.from({ length: count }, (_, n) => sampleSpan({ ...ids, sequence_id: n % 10 }));
  await store.addSpans(spans);
  return { store, ids, spans };
}

async function pagesOf(store: StoreReading, rolloutId: string, limit: number): Promise<string[][]> {
  const pages: string[][] = [];
  for (let offset = 0; ; offset += limit) {
    const page = await store.querySpans({ rollout_id: rolloutId, limit, offset });
    if (page.items.length === 0) return pages;
    pages.push(page.items.map(({ span_id }) => span_id));
  }
}

describe("page by page", () => {
  test("every span comes once and in order, whatever the size of the pages and wherever one begins", async () => {
    const { store, ids } = await rolloutWithSpans(95);
    const all = (await store.querySpans(ids)).items.map(({ span_id }) => span_id);
    for (const limit of [1, 7, 30, 94, 95, 96]) {
      expect((await pagesOf(store, ids.rollout_id, limit)).flat()).toEqual(all);
    }
    for (const offset of [94, 0, 47, 48, 7, 14, 95, 96, 1000]) {
      const { items, total } = await store.querySpans({ ...ids, offset, limit: 7 });
      expect(items.map(({ span_id }) => span_id)).toEqual(all.slice(offset, offset + 7));
      expect(total).toBe(95);
    }
  });

  test("a span that comes between two pages moves the second one, as an offset says", async () => {
    const { store, ids } = await rolloutWithSpans(20);
    await store.querySpans({ ...ids, limit: 5 });
    const early = sampleSpan({ ...ids, sequence_id: -1 });
    await store.addSpan(early);
    const all = (await store.querySpans(ids)).items.map(({ span_id }) => span_id);
    expect(all[0]).toBe(early.span_id);
    const { items, total } = await store.querySpans({ ...ids, limit: 5, offset: 5 });
    expect(items.map(({ span_id }) => span_id)).toEqual(all.slice(5, 10));
    expect(total).toBe(21);
  });

  test("a reader sees what its writer did between two pages", async () => {
    const path = join(temporaryFolder(), "store.db");
    const store = openStore({ path });
    const { rollout_id, attempt } = await store.startRollout({ input: 1 });
    const ids = { rollout_id, attempt_id: attempt.attempt_id };
    await store.addSpans(Array.from({ length: 9 }, () => sampleSpan({ ...ids, sequence_id: 5 })));
    const reader = openStoreReader(path);
    await reader.querySpans({ ...ids, limit: 3 });
    await store.addSpan(sampleSpan({ ...ids, sequence_id: 1 }));
    const all = (await store.querySpans(ids)).items.map(({ span_id }) => span_id);
    const second = await reader.querySpans({ ...ids, limit: 3, offset: 3 });
    expect(second.items.map(({ span_id }) => span_id)).toEqual(all.slice(3, 6));
    expect(second.total).toBe(10);
    await reader.close();
    await store.close();
  });

  test("rollouts that change their state or come anew disturb no walk over all of them", async () => {
    const store = memoryStore({ scanDebounceSeconds: 1000 });
    const inputs = Array.from({ length: 30 }, (_, input) => ({ input }));
    const rollouts = await store.enqueueRollouts(inputs);
    const walked: unknown[] = [];
    for (let offset = 0; ; offset += 4) {
      const { items, total } = await store.queryRollouts({ limit: 4, offset });
      walked.push(...items.map(({ input }) => input));
      expect(total).toBe(30 + Math.min(offset, 8) / 4);
      if (items.length < 4) break;
      await store.updateRollout(rollouts[offset % 30]!.rollout_id, { status: "failed" });
      if (offset < 8) await store.enqueueRollouts([{ input: 30 + offset / 4 }]);
    }
    expect(walked).toEqual(Array.from({ length: 32 }, (_, input) => input));
  });

  test("of rollouts in one state, one that leaves it between two pages moves the second", async () => {
    const store = memoryStore({ scanDebounceSeconds: 1000 });
    const [first] = await store.enqueueRollouts(Array.from({ length: 9 }, (_, input) => ({ input })));
    const page = async (offset: number) => {
      const { items, total } = await store.queryRollouts({ status_in: ["queuing"], limit: 3, offset });
      return [items.map(({ input }) => input), total];
    };
    expect(await page(0)).toEqual([[0, 1, 2], 9]);
    await store.updateRollout(first!.rollout_id, { status: "cancelled" });
    expect(await page(3)).toEqual([[4, 5, 6], 8]);
  });
});

describe("totals", () => {
  test("are exact through every change of state, refusals and failed writes included", async () => {
    const store = memoryStore();
    const rollouts = await store.enqueueRollouts(Array.from({ length: 12 }, (_, input) => ({ input })));
    const claimed = await store.dequeueRollouts({ limit: 5 });
    for (const [index, { rollout_id, attempt }] of claimed.entries()) {
      const { attempt_id } = attempt;
      const span = sampleSpan({ rollout_id, attempt_id });
      await store.addSpans([span, span, { ...span, attempt_id: "at-none" }]);
      await store.updateAttempt(rollout_id, attempt_id, { status: index < 3 ? "succeeded" : "failed" });
      await store.updateRollout(rollout_id, { status: index === 0 ? "queuing" : "cancelled" });
    }
    await store.updateAttempt("ro-none", "at-none", { status: "failed" }).catch(() => {});
    await store.startAttempt(rollouts[11]!.rollout_id);
    expect(await store.statistics()).toMatchObject({
      total_rollouts: 12,
      total_attempts: 6,
      total_spans: 5,
    });
    const { items } = await store.queryRollouts({});
    for (const status of ["queuing", "preparing", "running", "succeeded", "failed", "cancelled"] as const) {
      const counted = items.filter((rollout) => rollout.status === status).length;
      expect((await store.queryRollouts({ status_in: [status], limit: 1 })).total).toBe(counted);
    }
    expect((await store.queryRollouts({ status_in: ["queuing", "cancelled"], limit: 1 })).total).toBe(11);
    expect((await store.queryRollouts({ status_in: [], limit: 1 })).total).toBe(0);
  });
});
