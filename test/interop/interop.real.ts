import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { connectStore, type HttpStore } from "../../src/client/http-store.ts";
import { createProxy } from "../../src/proxy/proxy.ts";
import { asResource } from "../../src/proxy/resource.ts";
import { serveProxy } from "../../src/proxy/serve.ts";
import { stringifyJson } from "../../src/protocol/json.ts";
import type { StoreApi } from "../../src/protocol/store-api.ts";
import type { Span } from "../../src/protocol/types.ts";
import { runRunners } from "../../src/runner-host.ts";
import { serveStore, type StoreServer } from "../../src/server/serve.ts";
import { openStore, type SqliteStore } from "../../src/store/sqlite-store.ts";
import type { FakeVllm } from "../helpers/fake-vllm.ts";
import { eventually, until } from "../helpers/processes.ts";
import { upstreamOf } from "../helpers/proxy-fixture.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";
import { freePort, makeInteropPython, runPython, stopPython, startPython } from "./python.ts";
import { expectSameTriplets, expectTwoCalls, startTwoCallModel, task } from "./two-calls.ts";

/**
 * The released agentlightning 0.3.0 of PyPI against our parts: its client, runner, tracer, adapter and LLM proxy on our
 * store and proxy, and our client, runners and proxy on its store. Run with `bun test ./test/interop/interop.real.ts`.
 */
const minute = 60_000;
/** Not made inside of a hook: it would be gone with that. */
const folder = temporaryFolder();
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
  const vllm = startTwoCallModel();
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

/** What `otlp_exporter.py` recorded. */
function expectRecordedSpans(inner: Span, outer: Span): void {
  const context = { trace_id: outer.trace_id, span_id: outer.span_id };
  expect(outer).toMatchObject({ parent_id: null, end_time: 1_700_000_002, status: { status_code: "UNSET" } });
  expect(inner).toMatchObject({
    trace_id: outer.trace_id,
    parent_id: outer.span_id,
    status: { status_code: "ERROR", description: "broken" },
    events: [{ name: "step", attributes: { number: 1 }, timestamp: 1_700_000_000.5 }],
    links: [{ context, attributes: { why: "cause" } }],
    end_time: 1_700_000_001,
    resource: { attributes: { "service.name": "a" }, schema_url: "https://schema" },
  });
  expect(stringifyJson(inner)).toContain(
    `"attributes":{"text":"größe","big":9007199254740993,"float":1.0,"flag":true,"ids":[151644,8948],"none":[]}`,
  );
}

describe("on our store", () => {
  let store: SqliteStore;
  let server: StoreServer;

  beforeAll(() => {
    store = openStore({ path: join(mkdtempSync(join(folder, "store-")), "store.db") });
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
    "the original's client, which sends no header of its own, shows the token in the address",
    async () => {
      const token = "only-for-this-test-0123456789";
      const guarded = openStore({ path: ":memory:" });
      const address = serveStore({ store: guarded, hostname: "127.0.0.1", port: 0, token });
      stops.push(
        () => guarded.close(),
        () => address.stop(),
      );
      const agreed = await runPython("store_client.py", [`${address.url}/t/${token}`]);
      expect(agreed).toContain("the client and the store agree");
      const { rollout_id, attempt } = await guarded.startRollout({ input: 1 });
      await runPython("otlp_exporter.py", [`${address.url}/t/${token}`, rollout_id, attempt.attempt_id]);
      expect((await guarded.querySpans({ rollout_id })).total).toBe(6);
    },
    2 * minute,
  );

  test(
    "OpenTelemetry's exporter sends spans plain, with gzip and with deflate, and does not repeat what is refused",
    async () => {
      const { rollout_id, attempt } = await store.startRollout({ input: 1 });
      await runPython("otlp_exporter.py", [server.url, rollout_id, attempt.attempt_id]);
      const { items } = await store.querySpans({ rollout_id });
      expect(items.map(({ sequence_id, name }) => [sequence_id, name])).toEqual([
        [1, "none inner"],
        [2, "none outer"],
        [3, "gzip inner"],
        [4, "gzip outer"],
        [5, "deflate inner"],
        [6, "deflate outer"],
      ]);
      for (let index = 0; index < items.length; index += 2)
        expectRecordedSpans(items[index]!, items[index + 1]!);
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

describe("on our store, with the original's LLM proxy", () => {
  let store: SqliteStore;
  let server: StoreServer;
  let vllm: FakeVllm;
  let child: ReturnType<typeof startPython>;
  let errors: Promise<string>;

  beforeAll(() => {
    store = openStore({ path: join(mkdtempSync(join(folder, "store-")), "store.db") });
    server = serveStore({ store, hostname: "127.0.0.1", port: 0 });
    vllm = startTwoCallModel();
    child = startPython("llm_proxy.py", [server.url, vllm.baseUrl, String(freePort())]);
    errors = new Response(child.stderr).text();
    // LiteLLM prints a banner, and gives up when nobody reads it.
    void new Response(child.stdout).text();
    stops.push(
      () => store.close(),
      () => server.stop(),
      () => vllm.stop(),
      () => stopPython(child),
    );
  });

  test(
    "its calls are stored over OTLP with ids and one number each, and both adapters agree",
    async () => {
      const isReady = async () => (await store.getLatestResources()) !== null;
      await eventually(async () => child.exitCode !== null || (await isReady()), 2 * minute);
      if (!(await isReady())) {
        child.kill("SIGKILL");
        throw new Error(`the original's LLM proxy did not start:\n${await errors}`);
      }
      const [rollout] = await store.enqueueRollouts([{ input: task, mode: "train" }]);
      const rolloutId = rollout!.rollout_id;
      await runPython("run_agent.py", [server.url]);
      expect((await store.getRollout(rolloutId))?.status).toBe("succeeded");
      const calls = vllm.requests.map(({ body }) => body).filter((body) => body["return_token_ids"] === true);
      expect(calls.map((body) => body["temperature"])).toEqual([0.5, undefined]);
      const query = { rollout_id: rolloutId, attempt_id: "latest" };
      const named = async (name: string) => (await store.querySpans({ ...query, name })).items;
      const root = "Received Proxy Server Request";
      await until("both calls are stored", async () => (await named(root)).length === 2);
      const { items } = await store.querySpans(query);
      // The numbers that the proxy asked for before each call; the rewards come after them.
      const numbers = Map.groupBy(items, ({ sequence_id }) => sequence_id);
      const names = [...numbers].map(([number, spans]) => [number, spans.map(({ name }) => name)]);
      const call = expect.arrayContaining([root, "litellm_request", "raw_gen_ai_request"]);
      expect(names).toEqual([
        [1, call],
        [2, ["agentlightning.annotation"]],
        [3, call],
        [4, ["agentlightning.annotation"]],
      ]);
      await expectSameTriplets(server.url, rolloutId, expectTwoCalls(items, null));
    },
    4 * minute,
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
    stops.push(() => stopPython(child));
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
