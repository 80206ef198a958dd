import { afterEach, expect, test } from "bun:test";
import { openStore, type SqliteStore } from "../../../src/store/sqlite-store.ts";
import { replyAs } from "../../helpers/fake-vllm.ts";
import type { ProxyFixture } from "../../helpers/proxy-fixture.ts";
import { startProxyFixture } from "../../helpers/proxy-fixture.ts";

/** A reward that an agent writes after an answer belongs to the call before it, so its number must be the later one. */
let fixture: ProxyFixture;
let store: SqliteStore;
afterEach(async () => {
  await fixture.stop();
  await store.close();
});

const reply = { prompt_token_ids: [1], pieces: [{ text: "Hi", token_ids: [2] }] };

async function startSlowly(delayMs: number) {
  store = openStore({ path: ":memory:" });
  const { rollout_id, attempt } = await store.startRollout({ input: {} });
  const slow = {
    queryAttempts: (rolloutId: string) => store.queryAttempts(rolloutId),
    addSpans: store.addSpans.bind(store),
    async nextSequenceIds(requests: Parameters<SqliteStore["nextSequenceIds"]>[0]) {
      await Bun.sleep(delayMs);
      return store.nextSequenceIds(requests);
    },
  };
  fixture = startProxyFixture((request) => replyAs(request, reply), { store: slow });
  return { rolloutId: rollout_id, attemptId: attempt.attempt_id };
}

test.each([
  ["/chat/completions", false],
  ["/chat/completions", true],
  ["/completions", true],
  ["/messages", false],
  ["/messages", true],
])(
  "%s, streamed %p: a model that is quicker than the store does not mix up the order",
  async (path, stream) => {
    const { rolloutId, attemptId } = await startSlowly(60);
    const url = `${fixture.server.url}/rollout/${rolloutId}/attempt/${attemptId}/v1${path}`;
    for (let turn = 0; turn < 3; turn += 1) {
      const body = {
        model: "agent-model",
        stream,
        prompt: "x",
        max_tokens: 9,
        messages: [{ role: "user", content: "x" }],
      };
      await (await fetch(url, { method: "POST", body: JSON.stringify(body) })).text();
      expect(await store.nextSequenceId(rolloutId, attemptId)).toBe(2 * turn + 2);
    }
    await fixture.proxy.flush(5_000);
    const { items } = await store.querySpans({ rollout_id: rolloutId, name: "litellm_request" });
    expect(items.map(({ sequence_id }) => sequence_id)).toEqual([1, 3, 5]);
  },
);

test("a store that hangs does not keep the answer for ever", async () => {
  const { rolloutId, attemptId } = await startSlowly(8_000);
  const url = `${fixture.server.url}/rollout/${rolloutId}/attempt/${attemptId}/v1/chat/completions`;
  const body = JSON.stringify({ model: "agent-model", stream: true, messages: [] });
  const started = performance.now();
  expect(await (await fetch(url, { method: "POST", body })).text()).toEndWith("[DONE]\n\n");
  expect(performance.now() - started).toBeLessThan(6_000);
}, 15_000);
