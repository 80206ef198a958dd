import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI from "openai";
import { adaptProxySpans } from "../../../src/adapter/proxy-adapter.ts";
import { rewardAttributes } from "../../../src/protocol/reward-attributes.ts";
import { proxyResource, resolveEndpoint } from "../../../src/proxy/resource.ts";
import type { Span } from "../../../src/protocol/types.ts";
import type { SqliteStore } from "../../../src/store/sqlite-store.ts";
import { openStore } from "../../../src/store/sqlite-store.ts";
import { replyAs } from "../../helpers/fake-vllm.ts";
import type { ProxyFixture } from "../../helpers/proxy-fixture.ts";
import { startProxyFixture } from "../../helpers/proxy-fixture.ts";

let folder: string;
let store: SqliteStore;
let fixture: ProxyFixture;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "agl-proxy-"));
  store = openStore({ path: join(folder, "store.db") });
  fixture = startProxyFixture(
    (request, index) =>
      replyAs(request, {
        id: `chatcmpl-${index}`,
        prompt_token_ids: [1, 2, index],
        pieces: [
          { text: `Answer ${index}`, token_ids: [10, index] },
          { text: "", token_ids: [2] },
        ],
      }),
    { store },
  );
});

afterAll(async () => {
  await fixture.stop();
  await store.close();
  await rm(folder, { recursive: true });
});

async function startAttempt() {
  const rollout = await store.startRollout({ input: { question: "1 + 1" }, mode: "train" });
  const { rollout_id, attempt } = rollout;
  const endpoint = resolveEndpoint(
    proxyResource(fixture.server.url, "agent-model"),
    rollout_id,
    attempt.attempt_id,
  );
  const client = new OpenAI({ baseURL: endpoint, apiKey: "any", maxRetries: 0 });
  return { rollout_id, attempt_id: attempt.attempt_id, endpoint, client };
}

test("an agent's calls, plain and streamed, come back from the store as exact triplets with their reward", async () => {
  const { rollout_id, attempt_id, endpoint, client } = await startAttempt();
  const plain = await client.chat.completions.create({
    model: "agent-model",
    messages: [{ role: "user", content: "a" }],
  });
  expect(plain.choices[0]?.message.content).toBe("Answer 0");
  const stream = client.chat.completions.stream({
    model: "agent-model",
    messages: [{ role: "user", content: "b" }],
  });
  expect(await stream.finalContent()).toBe("Answer 1");
  expect((await fetch(`${endpoint}/flush`, { method: "POST" })).status).toBe(204);

  const reward = {
    ...((await store.querySpans({ rollout_id, attempt_id })).items[0] as Span),
    sequence_id: await store.nextSequenceId(rollout_id, attempt_id),
    span_id: "0123456789abcdef",
    name: "agentlightning.annotation",
    attributes: rewardAttributes(1),
  };
  await store.addSpan(reward);
  const { items } = await store.querySpans({ rollout_id, attempt_id });
  const { triplets, dropped } = adaptProxySpans(items);
  expect(dropped).toEqual([]);
  expect(
    triplets.map(({ prompt, response, reward: value }) => [prompt.token_ids, response.token_ids, value]),
  ).toEqual([
    [[1, 2, 0], [10, 0, 2], null],
    [[1, 2, 1], [10, 1, 2], 1],
  ]);
});

test("parallel attempts do not mix, and every completed call is stored", async () => {
  const attempts = await Promise.all(Array.from({ length: 8 }, startAttempt));
  const ask = async ({ client }: (typeof attempts)[number]) => {
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => client.chat.completions.create({ model: "agent-model", messages: [] })),
    );
    return answers.map(({ id }) => id).sort();
  };
  const ids = await Promise.all(attempts.map(ask));
  await fixture.proxy.flush(5_000);
  for (const [index, { rollout_id, attempt_id }] of attempts.entries()) {
    const { triplets } = adaptProxySpans((await store.querySpans({ rollout_id, attempt_id })).items);
    expect(triplets.map(({ metadata }) => metadata.response_id ?? "").sort()).toEqual(ids[index] ?? []);
    expect(triplets.map(({ metadata }) => metadata.sequence_id)).toEqual([1, 2, 3, 4, 5]);
  }
});

test("a rollout the store does not have is refused", async () => {
  const client = new OpenAI({
    baseURL: `${fixture.server.url}/rollout/ro-x/attempt/at-x/v1`,
    apiKey: "any",
    maxRetries: 0,
  });
  const call = async () => await client.chat.completions.create({ model: "agent-model", messages: [] });
  await expect(call()).rejects.toThrow("there is no attempt at-x of a rollout ro-x");
});
