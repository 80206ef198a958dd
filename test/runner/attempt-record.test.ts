import { expect, test } from "bun:test";
import { silentLogger } from "../../src/log.ts";
import type { AttemptedRollout, JsonObject } from "../../src/protocol/types.ts";
import { AttemptRecord } from "../../src/runner/attempt-record.ts";
import { openStore } from "../../src/store/sqlite-store.ts";

async function startAttempt() {
  const store = openStore({ path: ":memory:" });
  const rollout: AttemptedRollout = await store.startRollout({ input: "x" });
  const record = new AttemptRecord(rollout, store, "Worker-0", silentLogger);
  const spans = async () => (await store.querySpans({ rollout_id: rollout.rollout_id, limit: -1 })).items;
  const metadata = async (): Promise<JsonObject | null | undefined> =>
    (await store.getLatestAttempt(rollout.rollout_id))?.metadata;
  return { store, record, spans, metadata };
}

test("spans are numbered and written in the order they came, though some wait for their number and some do not", async () => {
  const { store, record, spans } = await startAttempt();
  const tool = { name: "add", arguments: {}, result: "3", isError: false, startTime: 1, endTime: 2 };
  void record.takeReward(0.25, 1);
  void record.takeModelCall({ name: "openai.chat.completion", attributes: {}, startTime: 1, endTime: 2 });
  await record.takeToolCall(tool);
  void record.takeReward(0.5, 3);
  await record.close({ status: "succeeded", reward: 1 }, undefined);
  expect((await spans()).map(({ name, sequence_id }) => [sequence_id, name])).toEqual([
    [1, "agentlightning.annotation"],
    [2, "openai.chat.completion"],
    [3, "agl.tool_call"],
    [4, "agentlightning.annotation"],
    [5, "agentlightning.annotation"],
  ]);
  await store.close();
});

test("while the store takes nothing, only so many spans wait; the others are counted with the attempt", async () => {
  const { store, record, spans, metadata } = await startAttempt();
  const away = Promise.withResolvers<void>();
  const number = store.nextSequenceId.bind(store);
  store.nextSequenceId = async (...ids) => {
    await away.promise;
    return number(...ids);
  };
  for (let reward = 0; reward < 4_100; reward++) void record.takeReward(reward, reward);
  away.resolve();
  await record.close({ status: "succeeded", reward: null }, undefined);
  expect((await spans()).length).toBe(4_096);
  expect(await metadata()).toEqual({ lost_spans: 4 });
  await store.close();
});
