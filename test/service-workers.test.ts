import { expect, test } from "bun:test";
import { join } from "node:path";
import { connectStore } from "../src/client/http-store.ts";
import { startProxyWorker, startStoreWorker } from "../src/service-workers.ts";
import { replyAs, startFakeVllm } from "./helpers/fake-vllm.ts";
import { until } from "./helpers/processes.ts";
import { upstreamOf } from "./helpers/proxy-fixture.ts";
import { temporaryFolder } from "./helpers/temporary-folder.ts";

const folder = temporaryFolder();
const anywhere = { hostname: "127.0.0.1", port: 0, anyPort: false };
const startStore = (path = join(folder, "store.db")) =>
  startStoreWorker({ path, token: undefined, logFile: join(folder, "store.log"), ...anywhere });

test("a proxy that is stopped tells what became of the calls that were still under way", async () => {
  const served = await startStore();
  const store = connectStore(served.url);
  const { rollout_id, attempt } = await store.startRollout({ input: 1 });
  const released = Promise.withResolvers<void>();
  const vllm = startFakeVllm(async (request) => {
    await released.promise;
    return replyAs(request, { prompt_token_ids: [1], pieces: [{ text: "hi", token_ids: [2] }] });
  });
  const proxy = await startProxyWorker({
    store: { url: served.url },
    logFile: join(folder, "proxy.log"),
    recording: {},
    holdMs: 0,
    ...anywhere,
  });
  await proxy.setUpstreams([upstreamOf(vllm)]);
  const answer = fetch(
    `${proxy.url}/rollout/${rollout_id}/attempt/${attempt.attempt_id}/v1/chat/completions`,
    { method: "POST", body: JSON.stringify({ model: "agent-model", messages: [] }) },
  );
  await until("the call is forwarded", () => vllm.requests.length === 1);
  const stopped = proxy.stop();
  released.resolve();
  expect((await answer).status).toBe(200);
  const statistics = await stopped;
  expect(statistics).toMatchObject({ calls: 1, openCalls: 0, callsLost: 0, spooledCalls: 0 });
  expect(statistics?.spansStored).toBe((await store.querySpans({ rollout_id })).total);
  await store.close();
  await vllm.stop();
  await served.stop();
});

test("a service that cannot start says why", async () => {
  await expect(startStore(folder)).rejects.toThrow(`cannot open the store file ${folder}`);
});
