import { expect, test } from "bun:test";
import fc from "fast-check";
import { modes, rolloutStatuses } from "../../src/protocol/enums.ts";
import type { Mode, RolloutStatus } from "../../src/protocol/enums.ts";
import type { Paging, RolloutQuery } from "../../src/protocol/store-api.ts";
import type { Page, Rollout } from "../../src/protocol/types.ts";
import { openStore } from "../../src/store/sqlite-store.ts";
import type { SqliteStore } from "../../src/store/sqlite-store.ts";
import { sampleSpan } from "../helpers/sample-span.ts";

const names = ["start_time", "end_time", "mode", "resources_id", "status", "duration", "worker_id"] as const;
const query = fc.record(
  {
    status_in: fc.option(fc.uniqueArray(fc.constantFrom(...rolloutStatuses), { maxLength: 3 })),
    mode_in: fc.option(fc.uniqueArray(fc.constantFrom(...modes), { maxLength: 2 })),
    rollout_id_contains: fc.option(fc.constantFrom("", "ro-", "a", "b1", "RO")),
    filter_logic: fc.constantFrom("and" as const, "or" as const),
    sort_by: fc.option(fc.constantFrom(...names)),
    sort_order: fc.constantFrom("asc" as const, "desc" as const),
  },
  { requiredKeys: [] },
);

interface Change {
  index: number;
  status: RolloutStatus;
  mode: Mode | null;
}

const change: fc.Arbitrary<Change> = fc.record({
  index: fc.nat(),
  status: fc.constantFrom(...rolloutStatuses),
  mode: fc.option(fc.constantFrom(...modes)),
});

/** Section 6 told plainly; the order of a sort is judged by its neighbours. */
function matching(rollouts: Rollout[], request: RolloutQuery): Set<string> {
  const { status_in: statuses, mode_in: wanted, rollout_id_contains: part } = request;
  const conditions = [
    ...(statuses ? [(rollout: Rollout) => statuses.includes(rollout.status)] : []),
    ...(wanted ? [(rollout: Rollout) => rollout.mode !== null && wanted.includes(rollout.mode)] : []),
    ...(typeof part === "string" ? [(rollout: Rollout) => rollout.rollout_id.includes(part)] : []),
  ];
  const isFound = (rollout: Rollout) =>
    request.filter_logic === "or" && conditions.length > 0
      ? conditions.some((condition) => condition(rollout))
      : conditions.every((condition) => condition(rollout));
  return new Set(rollouts.filter(isFound).map(({ rollout_id }) => rollout_id));
}

/** All pages of a size, in order, as a reader with patience asks for them. */
async function walk<Item>(ask: (paging: Paging) => Promise<Page<Item>>, limit: number): Promise<Item[]> {
  const items: Item[] = [];
  for (;;) {
    const page = await ask({ limit, offset: items.length });
    items.push(...page.items);
    if (page.items.length === 0) {
      expect(page.total).toBe(items.length);
      return items;
    }
  }
}

async function filled(rollouts: { mode: Mode | null; started: boolean }[]) {
  const store = openStore({ path: ":memory:", scanDebounceSeconds: 1e9 });
  for (const [index, { mode, started }] of rollouts.entries()) {
    const request = { input: index, mode, resources_id: index % 3 === 0 ? "rs" : null };
    if (started) await store.startRollout({ ...request, worker_id: index % 2 === 0 ? "w" : null });
    else await store.enqueueRollouts([request]);
  }
  return store;
}

async function apply(store: SqliteStore, ids: string[], { index, status, mode }: Change) {
  const id = ids[index % Math.max(1, ids.length)];
  if (id === undefined || status === "queuing") await store.enqueueRollouts([{ input: "new", mode }]);
  else await store.updateRollout(id, { status, mode });
}

const rollouts = fc.array(fc.record({ mode: fc.option(fc.constantFrom(...modes)), started: fc.boolean() }), {
  maxLength: 9,
});

//
test("rollouts read page by page are those read at once, before and after a change", async () => {
  const walks = fc.array(fc.tuple(query, fc.integer({ min: 1, max: 4 }), change), { maxLength: 5 });
  await fc.assert(
    fc.asyncProperty(rollouts, walks, async (given, asked) => {
      const store = await filled(given);
      for (const [request, limit, next] of asked) {
        const whole = await store.queryRollouts(request);
        const pages = await walk((paging) => store.queryRollouts({ ...request, ...paging }), limit);
        expect(pages).toEqual(whole.items);
        const all = (await store.queryRollouts({})).items;
        expect(new Set(whole.items.map(({ rollout_id }) => rollout_id))).toEqual(matching(all, request));
        await apply(
          store,
          all.map(({ rollout_id }) => rollout_id),
          next,
        );
      }
      await store.close();
    }),
    { numRuns: 60 },
  );
}, 60_000);

// a page goes on where the one before ended, unless something was written since.
test("a row that comes or moves between two pages is where an offset counted anew would find it", async () => {
  await fc.assert(
    fc.asyncProperty(rollouts, query, fc.array(change, { maxLength: 8 }), async (given, request, changes) => {
      const store = await filled(given);
      let offset = 0;
      for (const next of changes) {
        const page = await store.queryRollouts({ ...request, limit: 2, offset });
        const whole = (await store.queryRollouts(request)).items;
        expect(page).toEqual({
          items: whole.slice(offset, offset + 2),
          limit: 2,
          offset,
          total: whole.length,
        });
        offset += page.items.length;
        const all = (await store.queryRollouts({})).items;
        await apply(
          store,
          all.map(({ rollout_id }) => rollout_id),
          next,
        );
      }
      await store.close();
    }),
    { numRuns: 60 },
  );
}, 60_000);

//
test("spans, whose numbers are mostly equal, are read page by page as at once", async () => {
  const numbers = fc.array(fc.integer({ min: 0, max: 2 }), { maxLength: 12 });
  const order = fc.constantFrom("asc" as const, "desc" as const);
  const by = fc.constantFrom("sequence_id", "span_id", "parent_id", "end_time", "duration", null);
  await fc.assert(
    fc.asyncProperty(
      numbers,
      by,
      order,
      fc.integer({ min: 1, max: 5 }),
      async (given, sort_by, sort_order, limit) => {
        const store = openStore({ path: ":memory:" });
        const { rollout_id, attempt } = await store.startRollout({ input: 1 });
        const ids = { rollout_id, attempt_id: attempt.attempt_id };
        const end = (number: number) => (number === 0 ? null : 1766538003 + number);
        await store.addSpans(
          given.map((sequence_id) => sampleSpan({ ...ids, sequence_id, end_time: end(sequence_id) })),
        );
        const request = { rollout_id, sort_by, sort_order };
        const whole = await store.querySpans(request);
        expect(whole.total).toBe(given.length);
        expect(await walk((paging) => store.querySpans({ ...request, ...paging }), limit)).toEqual(
          whole.items,
        );
        await store.close();
      },
    ),
    { numRuns: 60 },
  );
}, 60_000);
