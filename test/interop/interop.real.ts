import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { adaptProxySpans } from "../../src/adapter/proxy-adapter.ts";
import type { Triplet } from "../../src/adapter/triplet.ts";
import { propagateRewards } from "../../src/algorithm/propagate.ts";
import { makeRow } from "../../src/algorithm/rows.ts";
import { connectStore, type HttpStore } from "../../src/client/http-store.ts";
import { createProxy } from "../../src/proxy/proxy.ts";
import { asResource } from "../../src/proxy/resource.ts";
import { serveProxy } from "../../src/proxy/serve.ts";
import type { StoreApi } from "../../src/protocol/store-api.ts";
import type { Span } from "../../src/protocol/types.ts";
import { runRunners } from "../../src/runner-host.ts";
import { serveStore, type StoreServer } from "../../src/server/serve.ts";
import { openStore, type SqliteStore } from "../../src/store/sqlite-store.ts";
import { type FakeVllm, replyAs, startFakeVllm } from "../helpers/fake-vllm.ts";
import { eventually, until } from "../helpers/processes.ts";
import { upstreamOf } from "../helpers/proxy-fixture.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";
import { makeInteropPython, runPython, startPython } from "./python.ts";

/**
 * The released agentlightning 0.3.0 of PyPI against our parts: its client, runner, tracer and adapter on our store and
 * proxy, and our client, runners and proxy on its store. Run with `bun test ./test/interop/interop.real.ts`.
 */
const minute = 60_000;
const task = { question: "What is 12*7?", expected: "Answer 1, with 'quotes' and “größe”" };
const stops: (() => Promise<unknown>)[] = [];

beforeAll(() => makeInteropPython(), 10 * minute);
afterAll(async () => {
  for (const stop of stops.reverse()) await stop();
});

interface Parts {
  vllm: FakeVllm;
  proxyUrl: string;
}

/** The real recording proxy in front of a model server that answers with ids, on any store. */
function startProxy(store: StoreApi): Parts {
  const vllm = startFakeVllm((request, index) => {
    const turn = request.body["messages"].length === 1 ? 0 : 1;
    return replyAs(request, {
      id: `chatcmpl-${index}`,
      prompt_token_ids: [151_644, 8948, turn],
      pieces: [
        { text: `Answer ${turn}, with `, token_ids: [10, turn] },
        { text: "'quotes' and “größe”", token_ids: [11] },
        { delta: {}, token_ids: [151_645] },
      ],
    });
  });
  const proxy = createProxy({ store, upstreams: [upstreamOf(vllm)] });
  const served = serveProxy({ proxy, hostname: "127.0.0.1", port: 0 });
  stops.push(
    () => vllm.stop(),
    () => proxy.close(),
    () => served.stop(0),
  );
  return { vllm, proxyUrl: served.url };
}

async function publish(store: StoreApi, endpoint: string): Promise<string> {
  const resource = asResource({
    endpoint,
    upstreams: [{ modelName: "agent-model" }],
    samplingParameters: { temperature: 0.5 },
  });
  return (await store.addResources({ main_llm: resource })).resources_id;
}

interface UpstreamTriplet {
  prompt: { token_ids: number[] };
  response: { token_ids: number[] };
  reward: number | null;
  metadata: { response_id: string };
}

function expectTwoCalls(spans: Span[]): Triplet[] {
  const { triplets, dropped, unassignedRewards } = adaptProxySpans(spans);
  expect({ dropped, unassignedRewards }).toEqual({ dropped: [], unassignedRewards: [] });
  expect(triplets).toMatchObject([
    {
      prompt: { token_ids: [151_644, 8948, 0] },
      response: { token_ids: [10, 0, 11, 151_645] },
      reward: 0.25,
      metadata: { exact: true, checkpoint: "version_0" },
    },
    { prompt: { token_ids: [151_644, 8948, 1] }, response: { token_ids: [10, 1, 11, 151_645] }, reward: 1 },
  ]);
  return triplets;
}

/** The original's adapter reads the same from the same spans, and so the same rows come out. */
async function expectSameTriplets(storeUrl: string, rolloutId: string, ours: Triplet[]): Promise<void> {
  const theirs: UpstreamTriplet[] = JSON.parse(await runPython("triplets.py", [storeUrl, rolloutId]));
  const essence = ({ prompt, response, reward, metadata }: Triplet | UpstreamTriplet) => ({
    prompt: prompt.token_ids,
    response: response.token_ids,
    reward,
    id: metadata.response_id,
  });
  expect(theirs.map(essence)).toEqual(ours.map(essence));
  const rows = (triplets: Triplet[]) =>
    propagateRewards(triplets, "filter-first").calls.map((call) => makeRow(rolloutId, call).row);
  const fromTheirs = theirs.map((triplet, index): Triplet => {
    const { metadata } = ours[index]!;
    return { prompt: triplet.prompt, response: triplet.response, reward: triplet.reward, metadata };
  });
  expect(rows(fromTheirs)).toEqual(rows(ours));
  expect(rows(ours).map(({ reward }) => reward)).toEqual([0.25, 1]);
}

describe("on our store", () => {
  let store: SqliteStore;
  let server: StoreServer;

  beforeAll(() => {
    store = openStore({ path: join(temporaryFolder(), "store.db") });
    server = serveStore({ store, hostname: "127.0.0.1", port: 0 });
    stops.push(
      () => store.close(),
      () => server.stop(),
    );
  });

  test(
    "the original's client enqueues, dequeues, adds spans, waits, updates and reads resources",
    async () => {
      expect(await runPython("store_client.py", [server.url])).toContain("the client and the store agree");
    },
    2 * minute,
  );

  test(
    "an agent under the original's runner and tracer: two calls and two rewards come back with ids, and both adapters agree",
    async () => {
      const { proxyUrl, vllm } = startProxy(store);
      const resourcesId = await publish(store, proxyUrl);
      const [rollout] = await store.enqueueRollouts([
        { input: task, mode: "train", resources_id: resourcesId },
      ]);
      const rolloutId = rollout!.rollout_id;
      await runPython("run_agent.py", [server.url]);
      expect((await store.getRollout(rolloutId))?.status).toBe("succeeded");
      expect(vllm.requests.map(({ body }) => body["temperature"])).toEqual([0.5, undefined]);
      const query = { rollout_id: rolloutId, attempt_id: "latest" };
      // What came the tracer's own way, over OTLP, knows the resource it comes from.
      await until("the spans are stored", async () => (await store.querySpans(query)).total >= 8);
      const { items } = await store.querySpans(query);
      const fromTracer = items.filter(({ resource }) => "telemetry.sdk.name" in resource.attributes);
      expect(fromTracer.map(({ name }) => name)).toContain("agentlightning.annotation");
      await expectSameTriplets(server.url, rolloutId, expectTwoCalls(items));
    },
    3 * minute,
  );
});

describe("on the original's store", () => {
  let store: HttpStore;
  let url: string;

  beforeAll(async () => {
    const port = freePort();
    url = `http://127.0.0.1:${port}`;
    const child = startPython("store_server.py", [String(port)]);
    const errors = new Response(child.stderr).text();
    void child.stdout.cancel();
    stops.push(async () => {
      child.kill("SIGTERM");
      await Promise.race([child.exited, Bun.sleep(5_000)]);
      child.kill("SIGKILL");
      await child.exited;
    });
    store = connectStore(url);
    stops.push(() => store.close());
    const isReady = await eventually(
      async () => child.exitCode !== null || (await store.health()).ok,
      2 * minute,
    );
    if (!isReady || child.exitCode !== null) {
      child.kill("SIGKILL");
      throw new Error(`the original's store did not start:\n${await errors}`);
    }
  }, 3 * minute);

  test(
    "our runners and our proxy work as on ours, and both adapters agree",
    async () => {
      const { proxyUrl } = startProxy(store);
      const resourcesId = await publish(store, `${proxyUrl}/v1`);
      const [good, bad] = await store.enqueueRollouts([
        { input: task, mode: "train", resources_id: resourcesId },
        { input: { ...task, expected: "something else" }, mode: "train", resources_id: resourcesId },
      ]);
      const stop = new AbortController();
      const runners = runRunners({
        storeUrl: url,
        workers: 1,
        concurrency: 1,
        pollSeconds: 0.2,
        agentFile: join(import.meta.dir, "two-calls-agent.ts"),
        signal: stop.signal,
      });
      const ids = [good!.rollout_id, bad!.rollout_id];
      await until(
        "both rollouts are finished",
        async () => (await store.waitForRollouts({ rollout_ids: ids, timeout: 0 })).length === 2,
        30_000,
      );
      stop.abort();
      expect(await store.getLatestAttempt(ids[0]!)).toMatchObject({ status: "succeeded", metadata: null });
      expect(await runners).toMatchObject({ succeeded: 1, failed: 1, failedBecause: { agent_error: 1 } });
      const { items } = await store.querySpans({ rollout_id: ids[0]!, attempt_id: "latest" });
      await expectSameTriplets(url, ids[0]!, expectTwoCalls(items));
      const failed = await store.getLatestAttempt(ids[1]!);
      expect(failed?.metadata).toMatchObject({
        reason: "agent_error",
        error: "another answer than expected",
      });
    },
    2 * minute,
  );
});

function freePort(): number {
  const probe = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const { port } = probe;
  probe.stop(true);
  return port;
}
