import { afterAll, expect, test } from "bun:test";
import fc from "fast-check";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { importLines } from "../../src/inspect/imported.ts";
import { eachLine } from "../../src/inspect/line-input.ts";
import { wholeStore } from "../../src/inspect/whole-store.ts";
import { attemptStatuses, modes, rolloutStatuses } from "../../src/protocol/enums.ts";
import { parseJson } from "../../src/protocol/json.ts";
import type { JsonObject, Span } from "../../src/protocol/types.ts";
import { openStore, type SqliteStore } from "../../src/store/sqlite-store.ts";
import { openStoreImport } from "../../src/store/store-import.ts";
import { sampleSpan } from "../helpers/sample-span.ts";

const folder = mkdtempSync(join(tmpdir(), "agl-test-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;
const newFile = () => join(folder, `${(files += 1)}.db`);

/** As texts, because what a text says and JavaScript cannot is what gets lost. */
const oddities = [
  "1.0",
  "-0.0",
  "1e-7",
  "12345678901234567890",
  "-9223372036854775808",
  '{"10":1.0,"2":[2,{"1":0}],"a":null}',
  '{"__proto__":1,"constructor":2}',
  '{"attempt":{"attempt_id":"at-none"}}',
  '"\\ud800 \\u2028 \\"}, {"',
];
const jsonText = fc.oneof(fc.json({ maxDepth: 2 }), fc.constantFrom(...oddities));
const json = jsonText.map(parseJson);
const jsonObject = fc.array(jsonText, { maxLength: 3 }).map((texts) => {
  const members = texts.map((text, index) => `"${["b", "7", "a"][index]}":${text}`);
  return parseJson(`{${members.join(",")}}`) as JsonObject;
});
const attribute = fc.oneof(
  fc.string(),
  fc.boolean(),
  fc.constantFrom(...oddities.slice(0, 5)).map(parseJson),
);
const pick = fc.nat({ max: 1000 });
const statistics = fc.option(jsonObject, { nil: undefined });

type Step = (store: SqliteStore, world: World) => Promise<unknown>;
interface World {
  attempts: { rollout_id: string; attempt_id: string }[];
  rollouts: string[];
  resources: string[];
}

const newRollout = fc.record(
  {
    input: json,
    mode: fc.option(fc.constantFrom(...modes)),
    resources_id: fc.option(fc.constantFrom("rs-elsewhere")),
    config: fc.record(
      {
        timeout_seconds: fc.option(fc.constantFrom(1e12)),
        max_attempts: fc.integer({ min: 1, max: 3 }),
        retry_condition: fc.uniqueArray(fc.constantFrom(...attemptStatuses), { maxLength: 3 }),
      },
      { requiredKeys: [] },
    ),
    metadata: fc.option(jsonObject),
  },
  { requiredKeys: ["input"] },
);

const spanMembers = fc.record({
  sequence_id: fc.integer({ min: 0, max: 4 }),
  parent_id: fc.option(fc.constantFrom("p", "")),
  name: fc.string(),
  start_time: fc.option(fc.double({ noNaN: true, noDefaultInfinity: true })),
  attributes: fc.dictionary(fc.constantFrom("a", "3", "1", "__proto__", "token_ids"), attribute as any),
  extra: json,
});

const steps: fc.Arbitrary<Step> = fc.oneof(
  newRollout.map((request): Step => async (store, world) => {
    const [rollout] = await store.enqueueRollouts([request as any]);
    world.rollouts.push(rollout!.rollout_id);
  }),
  newRollout.map((request): Step => async (store, world) => {
    const { rollout_id, attempt } = await store.startRollout({ ...(request as any), worker_id: "w-1" });
    world.rollouts.push(rollout_id);
    world.attempts.push(attempt);
  }),
  pick.map((which): Step => async (store, world) => {
    const rolloutId = world.rollouts[which % world.rollouts.length];
    if (rolloutId !== undefined) world.attempts.push((await store.startAttempt(rolloutId)).attempt);
  }),
  fc.constant<Step>(async (store, world) => {
    for (const { attempt } of await store.dequeueRollouts({ worker_id: "w-2" })) world.attempts.push(attempt);
  }),
  fc.tuple(pick, fc.constantFrom(...rolloutStatuses)).map(([which, status]): Step => async (store, world) => {
    const rolloutId = world.rollouts[which % world.rollouts.length];
    if (rolloutId !== undefined) await store.updateRollout(rolloutId, { status });
  }),
  fc
    .tuple(pick, fc.constantFrom(...attemptStatuses), statistics)
    .map(([which, status, metadata]): Step => async (store, world) => {
      const attempt = world.attempts[which % world.attempts.length];
      if (attempt === undefined) return;
      await store.updateAttempt(attempt.rollout_id, attempt.attempt_id, { status, metadata });
    }),
  fc.tuple(pick, spanMembers).map(([which, members]): Step => async (store, world) => {
    const attempt = world.attempts[which % world.attempts.length];
    if (attempt === undefined) return;
    const { rollout_id, attempt_id } = attempt;
    await store.addSpan(sampleSpan({ ...(members as Partial<Span>), rollout_id, attempt_id }));
  }),
  fc.tuple(pick, fc.string()).map(([which, template]): Step => async (store, world) => {
    const known = world.resources[which % (world.resources.length + 1)];
    const content = { "9": { resource_type: "prompt_template", template, engine: "jinja" } } as const;
    const { resources_id } = await (known === undefined
      ? store.addResources(content)
      : store.updateResources(known, content));
    if (known === undefined) world.resources.push(resources_id);
  }),
  fc.tuple(fc.constantFrom("w-1", "w-3"), statistics).map(
    ([workerId, stats]): Step =>
      (store) =>
        store.updateWorker(workerId, stats),
  ),
);

async function linesOf(store: SqliteStore): Promise<string[]> {
  return Array.fromAsync(wholeStore(store, {}));
}

async function importInto(path: string, lines: string[]) {
  const target = openStoreImport(path);
  try {
    const stream = new Blob(lines.map((line) => `${line}\n`)).stream();
    const counts = await importLines(eachLine(stream), { name: "lines", write: (one) => target.write(one) });
    target.commit();
    return counts;
  } finally {
    target.close();
  }
}

async function queueOf(store: SqliteStore): Promise<string[]> {
  const claimed = await store.dequeueRollouts({ limit: 1000 });
  return claimed.map(({ rollout_id }) => rollout_id).sort();
}

test("whatever a store holds comes out of its copy byte for byte, and is there already the second time", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(steps, { maxLength: 25, size: "max" }), async (history) => {
      const store = openStore({ path: ":memory:" });
      const world: World = { attempts: [], rollouts: [], resources: [] };
      for (const step of history) await step(store, world);
      const lines = await linesOf(store);
      if (lines.length === 0) return;

      const path = newFile();
      expect(Object.values((await importInto(path, lines)).present)).toEqual([0, 0, 0, 0, 0]);
      const again = await importInto(path, lines);
      expect(Object.values(again.imported)).toEqual([0, 0, 0, 0, 0]);
      expect(Object.values(again.present).reduce((sum, n) => sum + n)).toBe(lines.length);

      const copy = openStore({ path });
      expect(await linesOf(copy)).toEqual(lines);
      expect(await copy.getLatestResources()).toEqual(await store.getLatestResources());
      const { uptime: _, ...statistics } = await copy.statistics();
      expect(await store.statistics()).toMatchObject(statistics);
      for (const rolloutId of world.rollouts) {
        expect(await copy.nextSequenceId(rolloutId, "")).toBe(await store.nextSequenceId(rolloutId, ""));
      }
      expect(await queueOf(copy)).toEqual(await queueOf(store));
      await Promise.all([store.close(), copy.close()]);
    }),
    { numRuns: 60 },
  );
}, 60_000);
