import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { rewardSpan, toolCallSpan } from "../../src/runner/attempt-spans.ts";
import { openStore } from "../../src/store/sqlite-store.ts";
import { replyAs } from "./fake-vllm.ts";
import { startProxyFixture } from "./proxy-fixture.ts";

export interface RecordedRollout {
  rolloutId: string;
  attemptId: string;
}

/** A run's folder with an open store, and a real proxy that records what it is asked. */
export async function startRecordedRun(folder: string, name = "2026-11-29-1") {
  const path = join(folder, "runs", name);
  mkdirSync(path, { recursive: true });
  const store = openStore({ path: join(path, "store.db") });
  const proxy = startProxyFixture(
    (request, index) =>
      replyAs(request, {
        id: `chatcmpl-${index}`,
        prompt_token_ids: [1, 2, 3],
        pieces: [{ text: `Answer ${index}`, token_ids: [10, index] }],
      }),
    { store },
  );
  const frameOf = (rolloutId: string, attemptId: string) => ({
    rolloutId,
    attemptId,
    traceId: "0".repeat(32),
  });
  const run = {
    path,
    store,
    /** One call, recorded when this returns. */
    async ask(url: string, content: string) {
      const messages = [
        { role: "system", content: "Be brief." },
        { role: "user", content },
      ];
      await proxy.post({ messages }, { path: url });
      await proxy.proxy.flush(5_000);
    },
    async reward(rolloutId: string, attemptId: string, value: number) {
      const sequenceId = await store.nextSequenceId(rolloutId, attemptId);
      await store.addSpan(rewardSpan(frameOf(rolloutId, attemptId), sequenceId, value, 1));
    },
    async useTool(rolloutId: string, attemptId: string) {
      const sequenceId = await store.nextSequenceId(rolloutId, attemptId);
      const call = { name: "calculate", arguments: { expression: "12*7" }, result: "84", isError: false };
      const frame = frameOf(rolloutId, attemptId);
      await store.addSpan(toolCallSpan(frame, sequenceId, { ...call, startTime: 1, endTime: 1.25 }));
    },
    /** Two calls with a tool call between them, then a reward. */
    async record(
      input: unknown,
      { reward = 1, mode = "train" }: { reward?: number; mode?: "train" | "val" } = {},
    ): Promise<RecordedRollout> {
      const { rollout_id: rolloutId, attempt } = await store.startRollout({ input, mode });
      const attemptId = attempt.attempt_id;
      const url = `/rollout/${rolloutId}/attempt/${attemptId}/v1/chat/completions`;
      await run.ask(url, "What is 12*7?");
      await run.useTool(rolloutId, attemptId);
      await run.ask(url, "So?");
      await run.reward(rolloutId, attemptId, reward);
      await store.updateAttempt(rolloutId, attemptId, { status: "succeeded" });
      return { rolloutId, attemptId };
    },
    async close() {
      await proxy.stop();
      await store.close();
    },
  };
  return run;
}
