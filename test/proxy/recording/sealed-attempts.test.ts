import { expect, test } from "bun:test";
import fc from "fast-check";
import { adaptProxySpans } from "../../../src/adapter/proxy-adapter.ts";
import { connectStore } from "../../../src/client/http-store.ts";
import { serveStore } from "../../../src/server/serve.ts";
import { replyAs } from "../../helpers/fake-vllm.ts";
import { memoryStore } from "../../helpers/memory-store.ts";
import { until } from "../../helpers/processes.ts";
import { startProxyFixture } from "../../helpers/proxy-fixture.ts";

function startAll() {
  const store = memoryStore();
  const server = serveStore({ store, hostname: "127.0.0.1", port: 0 });
  const client = connectStore(server.url);
  const fixture = startProxyFixture(
    (request, index) => ({
      ...replyAs(request, {
        id: `chatcmpl-${index}`,
        prompt_token_ids: [1],
        pieces: [{ text: request.body.user, token_ids: [2] }],
      }),
    }),
    { store: client },
  );
  return {
    store,
    fixture,
    async [Symbol.asyncDispose]() {
      await fixture.stop();
      await client.close();
      await server.stop();
    },
  };
}

/** What the store holds of each call, by the name that the call gave itself. */
async function storedCalls(store: ReturnType<typeof memoryStore>, rollout_id: string) {
  const { items } = await store.querySpans({ rollout_id });
  const calls = items.filter(({ name }) => name === "raw_gen_ai_request");
  const named = calls.map(({ attributes }) => {
    const name = String(attributes["llm.hosted_vllm.user"]);
    return [name, attributes["agl.call.stale"] === true] as const;
  });
  return { stale: new Map(named), rows: adaptProxySpans(items).triplets.length };
}

const ways = ["succeeded", "failed", "timeout", "replaced"] as const;

test("whoever ends an attempt, and whenever: calls answered before are rows, calls that come after are stale", async () => {
  await using all = startAll();
  const { store, fixture } = all;
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...ways),
      fc.integer({ min: 0, max: 3 }),
      fc.integer({ min: 0, max: 3 }),
      fc.integer({ min: 1, max: 3 }),
      fc.boolean(),
      async (way, before, during, after, flushes) => {
        const { rollout_id, attempt } = await store.startRollout({ input: null });
        const { attempt_id } = attempt;
        const root = `/rollout/${rollout_id}/attempt/${attempt_id}`;
        const call = async (user: string) =>
          await (await fixture.post({ user }, { path: `${root}/v1/chat/completions` })).text();
        const callAll = (name: string, count: number) =>
          Promise.all(Array.from({ length: count }, (_, index) => call(`${name}-${index}`)));
        await callAll("before", before);
        if (flushes) await fetch(`${fixture.server.url}${root}/flush?ends=true`, { method: "POST" });
        else await fixture.proxy.flush(5_000);
        const open = callAll("during", during);
        if (way === "replaced") await store.startAttempt(rollout_id);
        else await store.updateAttempt(rollout_id, attempt_id, { status: way });
        await callAll("after", after);
        await open;
        await fixture.proxy.flush(5_000);
        const { stale, rows } = await storedCalls(store, rollout_id);
        expect(stale.size).toBe(before + during + after);
        for (const [name, isStale] of stale) {
          if (name.startsWith("before")) expect([name, isStale]).toEqual([name, false]);
          // Its runner said that it ends.
          if (name.startsWith("after") || flushes) {
            expect([name, isStale]).toEqual([name, !name.startsWith("before")]);
          }
        }
        expect(rows).toBe([...stale.values()].filter((isStale) => !isStale).length);
      },
    ),
    { numRuns: 60 },
  );
});

test("an attempt that its runner ends is sealed even while the store is away", async () => {
  const fixture = startProxyFixture((request) =>
    replyAs(request, { prompt_token_ids: [1], pieces: [{ text: "hi", token_ids: [2] }] }),
  );
  try {
    await fixture.post({});
    await fetch(`${fixture.server.url}/rollout/ro-1/attempt/at-1/flush?ends=true`, { method: "POST" });
    fixture.sink.broken = new Error("away");
    expect((await fixture.post({})).status).toBe(200);
    fixture.sink.broken = null;
    const raws = await fixture.spans("raw_gen_ai_request");
    expect(raws.map(({ attributes }) => attributes["agl.call.stale"])).toEqual([undefined, true]);
    expect(fixture.proxy.statistics().stale).toBe(1);
  } finally {
    await fixture.stop();
  }
});

test("32 calls at once cost the store few questions", async () => {
  const fixture = startProxyFixture((request) =>
    replyAs(request, { prompt_token_ids: [1], pieces: [{ text: "hi", token_ids: [2] }] }),
  );
  try {
    await fixture.post({});
    let questions = 0;
    const { nextSequenceIds } = fixture.sink;
    const allAreForwarded = until("all calls are forwarded", () => fixture.vllm.requests.length === 33);
    fixture.sink.nextSequenceIds = async (requests) => {
      questions += 1;
      await allAreForwarded;
      return await nextSequenceIds(requests);
    };
    await Promise.all(Array.from({ length: 32 }, () => fixture.post({})));
    await fixture.proxy.flush(5_000);
    expect(fixture.proxy.statistics().calls).toBe(33);
    expect(questions).toBeLessThanOrEqual(2);
  } finally {
    await fixture.stop();
  }
});
