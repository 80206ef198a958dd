import { afterEach, expect, test } from "bun:test";
import { runRollouts } from "../../src/algorithm/rollouts.ts";
import { rowsOfRollout } from "../../src/inspect/rollout-rows.ts";
import { tellStory } from "../../src/inspect/story.ts";
import type { AttemptedRollout } from "../../src/protocol/types.ts";
import { replyAs } from "../helpers/fake-vllm.ts";
import { memoryStore } from "../helpers/memory-store.ts";
import { startProxyFixture, type ProxyFixture } from "../helpers/proxy-fixture.ts";
import { rewardSpan } from "../helpers/spans.ts";
import { createTestClock } from "../helpers/test-clock.ts";

const proxies: ProxyFixture[] = [];

afterEach(async () => {
  for (const proxy of proxies.splice(0)) await proxy.stop();
});

/** A store whose time is moved by hand, and a proxy that lives in the same time; each answer has its own ids. */
function startParts() {
  const clock = createTestClock();
  const store = memoryStore({ now: clock.now });
  const proxy = startProxyFixture(
    (request, index) =>
      replyAs(request, {
        id: `chatcmpl-${index}`,
        prompt_token_ids: [1, 2, 3],
        pieces: [{ text: "4", token_ids: [10, index] }],
      }),
    { store, now: () => clock.now() * 1000 },
  );
  proxies.push(proxy);
  return { clock, store, proxy };
}

// O20; S-11, S-19, P-5, T-20, T-21
test("what comes after an attempt was timed out is kept and marked, changes no status, and trains nothing", async () => {
  const { clock, store, proxy } = startParts();
  const ask = async ({ rollout_id, attempt }: AttemptedRollout) => {
    const path = `/rollout/${rollout_id}/attempt/${attempt.attempt_id}/v1/chat/completions`;
    expect((await proxy.post({}, { path })).status).toBe(200);
    await proxy.proxy.flush(5_000);
  };
  const reward = async ({ rollout_id, attempt: { attempt_id } }: AttemptedRollout, value: number) => {
    const sequence_id = await store.nextSequenceId(rollout_id, attempt_id);
    await store.addSpan({ ...rewardSpan(rollout_id, attempt_id, value), sequence_id });
  };
  const statuses = async (rolloutId: string) => {
    const attempts = (await store.queryAttempts(rolloutId)).items.map(({ status }) => status);
    return [(await store.getRollout(rolloutId))?.status, ...attempts];
  };
  const training = runRollouts({
    store,
    tasks: ["2+2"],
    mode: "train",
    resourcesId: "rs-1",
    metadata: {},
    config: { timeout_seconds: 2, max_attempts: 2, retry_condition: ["timeout"] },
    timeoutSeconds: 60,
    signal: new AbortController().signal,
  });

  const [first] = await store.dequeueRollouts({ worker_id: "slow", wait_seconds: 30 });
  clock.advance(1);
  await ask(first!);
  clock.advance(1.5);
  const [second] = await store.dequeueRollouts({ worker_id: "quick" });
  const { rollout_id: id } = second!;
  expect(second).toMatchObject({ rollout_id: first!.rollout_id, attempt: { sequence_id: 2 } });

  clock.advance(0.5);
  await ask(first!);
  await reward(first!, 1);
  expect(await statuses(id)).toEqual(["preparing", "timeout", "preparing"]);
  await ask(second!);
  await reward(second!, 0.5);
  expect(await statuses(id)).toEqual(["running", "timeout", "running"]);

  clock.advance(1);
  await store.updateAttempt(id, second!.attempt.attempt_id, { status: "succeeded" });
  await store.updateAttempt(id, first!.attempt.attempt_id, { status: "failed" });
  expect(await statuses(id)).toEqual(["succeeded", "failed", "succeeded"]);

  const marks = (await store.querySpans({ rollout_id: id, name: "raw_gen_ai_request" })).items.map(
    ({ attempt_id, attributes }) => [attempt_id, attributes["agl.call.stale"] ?? false],
  );
  const [one, two] = [first!.attempt.attempt_id, second!.attempt.attempt_id];
  expect(marks).toEqual([
    [one, false],
    [one, true],
    [two, false],
  ]);

  const [finished] = await training;
  const { rows } = rowsOfRollout(finished!.rollout, finished!.spans, { rule: "above-mean" });
  expect(rows.map(({ row }) => [row.input_ids, row.reward])).toEqual([[[1, 2, 3, 10, 2], 0.5]]);
  const story = await tellStory(store, finished!.rollout, { attemptId: null, rule: "above-mean" });
  const fates = story.attempts.map(({ events }) =>
    events.flatMap((event) => (event.kind === "call" ? [event.left_out] : [])),
  );
  expect(fates).toEqual([["attempt_not_latest", "attempt_not_latest"], [null]]);
});
