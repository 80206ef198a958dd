import { expect, test } from "bun:test";
import fc from "fast-check";
import type { SpanQuery } from "../../src/protocol/store-api.ts";
import type { Span } from "../../src/protocol/types.ts";
import { openStore } from "../../src/store/sqlite-store.ts";
import { sampleSpan } from "../helpers/sample-span.ts";

const word = fc.constantFrom("a", "b", "ab", "B", "", "é", "😀", "%", "_");
const time = fc.option(fc.integer({ min: 0, max: 3 }));
const spanMembers = fc.record({
  name: word,
  trace_id: word,
  parent_id: fc.option(word),
  sequence_id: fc.integer({ min: -1, max: 2 }),
  start_time: time,
  end_time: time,
});

const sortNames = ["name", "trace_id", "parent_id", "sequence_id", "start_time", "end_time"] as const;
const query = fc.record(
  {
    name: fc.option(word),
    name_contains: fc.option(word),
    trace_id: fc.option(word),
    trace_id_contains: fc.option(word),
    parent_id: fc.option(word),
    parent_id_contains: fc.option(word),
    filter_logic: fc.constantFrom("and" as const, "or" as const),
    sort_by: fc.option(fc.constantFrom(...sortNames)),
    sort_order: fc.constantFrom("asc" as const, "desc" as const),
    limit: fc.constantFrom(-1, 1, 2, 5),
    offset: fc.nat({ max: 4 }),
  },
  { requiredKeys: [] },
);
type Query = Omit<SpanQuery, "rollout_id">;

/** Section 6 told plainly over an array. */
function expected(spans: Span[], request: Query): { items: Span[]; total: number } {
  const conditions = (["name", "trace_id", "parent_id"] as const).flatMap((field) => {
    const [equal, part] = [request[field], request[`${field}_contains`]];
    return [
      ...(typeof equal === "string" ? [(span: Span) => span[field] === equal] : []),
      ...(typeof part === "string" ? [(span: Span) => span[field]?.includes(part) ?? false] : []),
    ];
  });
  const matches = (span: Span) =>
    request.filter_logic === "or" && conditions.length > 0
      ? conditions.some((condition) => condition(span))
      : conditions.every((condition) => condition(span));
  const found = spans.filter(matches);
  const by = request.sort_by === undefined ? "sequence_id" : request.sort_by;
  const direction = request.sort_order === "desc" ? -1 : 1;
  const sorted =
    by === null ? found : found.toSorted((a, b) => direction * compare(keyOf(a, by), keyOf(b, by)));
  const { limit = -1, offset = 0 } = request;
  return { items: sorted.slice(offset, limit === -1 ? undefined : offset + limit), total: found.length };
}

function keyOf(span: Span, name: string): string | number {
  const value = span[name] as string | number | null;
  return value ?? (name.endsWith("_time") ? Number.POSITIVE_INFINITY : "");
}

function compare(a: string | number, b: string | number): number {
  if (typeof a === "number" || typeof b === "number") return a === b ? 0 : a < b ? -1 : 1;
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

//
test("any query gives the page that a plain reading of the rules gives", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(spanMembers, { maxLength: 12 }), fc.array(query), async (members, queries) => {
      const store = openStore({ path: ":memory:" });
      const { rollout_id, attempt } = await store.startRollout({ input: 1 });
      const ids = { rollout_id, attempt_id: attempt.attempt_id };
      const spans = members.map((each) => sampleSpan({ ...ids, ...each }));
      await store.addSpans(spans);
      for (const request of queries) {
        const page = await store.querySpans({ rollout_id, ...request });
        const { items, total } = expected(spans, request);
        expect(page.total).toBe(total);
        expect(page.items.map(({ span_id }) => span_id)).toEqual(items.map(({ span_id }) => span_id));
      }
      await store.close();
    }),
  );
}, 30_000);
