import { afterEach, describe, expect, test } from "bun:test";
import { connectStore } from "../../src/client/http-store.ts";
import type { HttpStoreOptions } from "../../src/client/http-store.ts";
import type { DirectFetch } from "../../src/client/loopback-fetch.ts";
import { AglError, StoreRequestError } from "../../src/errors.ts";
import type { SpanBatchResult, StoreApi } from "../../src/protocol/store-api.ts";
import { serveStore } from "../../src/server/serve.ts";
import { memoryStore } from "../helpers/memory-store.ts";
import { sampleSpan } from "../helpers/sample-span.ts";
import { soon } from "../helpers/soon.ts";

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

function connected(options: HttpStoreOptions = {}) {
  const store = memoryStore();
  const server = serveStore({ store, hostname: "127.0.0.1", port: 0 });
  const client = connectStore(`${server.url}/`, options);
  closers.push(
    () => server.stop(),
    () => client.close(),
  );
  return { store, client, server };
}

/** A server that plays a list of answers, then says 200 `[]`; it notes the paths it was asked for. */
function scripted(answers: (Response | "cut" | null)[], options: HttpStoreOptions = {}) {
  const asked: string[] = [];
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch(request) {
      const path = new URL(request.url).pathname.replace("/v1/agl", "");
      if (path === "/health") {
        asked.push("health");
        return Response.json({ status: "ok" });
      }
      asked.push(path);
      const answer = answers.shift();
      if (answer === "cut") throw new Error("cut");
      return answer ?? Response.json([]);
    },
    error: () => new Response("oops", { status: 500 }),
  });
  closers.push(() => server.stop(true));
  const client = connectStore(`http://127.0.0.1:${server.port}`, { retryDelaysMs: [1, 2, 5], ...options });
  closers.push(() => client.close());
  return { client, asked };
}

const failure = (status: number) => new Response("oops", { status });

describe("over HTTP the store behaves as in the process", () => {
  test("every method", async () => {
    const { store, client } = connected();
    const prompt = { resource_type: "prompt_template", template: "t", engine: "jinja" } as const;
    const resources = await client.addResources({ prompt });
    expect(await client.getLatestResources()).toEqual(resources);
    const updated = await client.updateResources("my id", {});
    expect(await client.getResources("my id")).toEqual(updated);
    expect((await client.queryResources({ resources_id: "my id" })).items).toEqual([updated]);
    expect((await client.queryResources({})).total).toBe(2);

    const [queued] = await client.enqueueRollouts([{ input: { q: 1 }, mode: "train" }]);
    expect(await client.getRollout(queued!.rollout_id)).toEqual(queued!);
    const [taken] = await client.dequeueRollouts({ worker_id: "w" });
    expect(await client.dequeueRollouts({ worker_id: "w" })).toEqual([]);
    expect(await client.getLatestAttempt(queued!.rollout_id)).toEqual(taken!.attempt);
    expect((await client.queryAttempts(queued!.rollout_id)).items).toEqual([taken!.attempt]);
    const second = await client.startAttempt(queued!.rollout_id, "v");
    expect(second.attempt.worker_id).toBe("v");
    expect((await client.startRollout({ input: 2, worker_id: "u" })).status).toBe("preparing");

    const ids = { rollout_id: queued!.rollout_id, attempt_id: second.attempt.attempt_id };
    const span = sampleSpan(ids);
    expect(await client.addSpan(span)).toEqual(span);
    expect(await client.addSpan(span)).toBeNull();
    const batch = [span, sampleSpan(ids), sampleSpan({ ...ids, rollout_id: "ro-x" })];
    expect(await client.addSpans(batch)).toMatchObject({
      stored: 1,
      duplicates: 1,
      rejected: [{ index: 2 }],
    });
    expect((await client.querySpans({ ...ids, name_contains: "openai" })).total).toBe(2);
    expect(await client.nextSequenceId(ids.rollout_id, ids.attempt_id)).toBe(2);

    expect(await client.updateAttempt(ids.rollout_id, "latest", { metadata: { a: 1 } })).toMatchObject({
      metadata: { a: 1 },
    });
    expect((await client.updateRollout(ids.rollout_id, { status: "cancelled" })).status).toBe("cancelled");
    expect(await client.waitForRollouts({ rollout_ids: [ids.rollout_id], timeout: null })).toHaveLength(1);
    expect((await client.queryRollouts({ status_in: ["cancelled"] })).total).toBe(1);

    expect(await client.updateWorker("w", { cpu: 1 })).toMatchObject({ heartbeat_stats: { cpu: 1 } });
    expect(await client.updateWorker("w")).toMatchObject({ heartbeat_stats: { cpu: 1 } });
    expect(await client.getWorker("w")).toEqual(await store.getWorker("w"));
    expect((await client.queryWorkers({ worker_id_contains: "v" })).total).toBe(1);
    expect(await client.statistics()).toMatchObject({ total_rollouts: 2, total_workers: 3 });
  });

  test("health", async () => {
    const { client, store } = connected();
    expect(await client.health()).toEqual({ ok: true, storeId: store.storeId, waits: true });
    expect(await scripted([]).client.health()).toEqual({ ok: true, waits: false });
    expect(await connectStore("http://127.0.0.1:9").health()).toEqual({ ok: false, waits: false });
  });

  // W-1, W-3
  test("the address may end in slashes, and ids hold anything but one", async () => {
    const { store, server } = connected();
    const client = connectStore(`${server.url}//`);
    closers.push(() => client.close());
    for (const id of ["with space", "größe", "50%", "a?b#c", "latest"]) {
      expect((await client.updateWorker(id)).worker_id).toBe(id);
      expect(await client.getWorker(id)).toEqual(await store.getWorker(id));
    }
  });

  // W-1; our own server would not mind a slash too many
  test.each([
    ["http://host:4747", "http://host:4747/v1/agl/statistics"],
    ["http://host:4747/", "http://host:4747/v1/agl/statistics"],
    ["http://host:4747///", "http://host:4747/v1/agl/statistics"],
    ["http://host:4747/below//", "http://host:4747/below/v1/agl/statistics"],
    ["http://host:4747/t/TOKEN//", "http://host:4747/v1/agl/statistics"],
    ["http://agl:TOKEN@host:4747//", "http://host:4747/v1/agl/statistics"],
  ])("at %s it asks for %s", async (address, expected) => {
    const asked: string[] = [];
    const fetch: DirectFetch = async (url) => {
      asked.push(url);
      return Response.json({});
    };
    const client = connectStore(address, { fetch });
    closers.push(() => client.close());
    await client.statistics();
    expect(asked).toEqual([expected]);
  });

  // W-26
  test("members of an answer that it does not know are no trouble", async () => {
    const page = { items: [{ worker_id: "w", colour: "red" }], limit: -1, offset: 0, total: 1, next: "x" };
    const { client } = scripted([Response.json(page)]);
    expect((await client.queryWorkers({})).items).toMatchObject([{ worker_id: "w" }]);
  });

  test("a refusal keeps its status and detail", async () => {
    const { client } = connected();
    const error = await client.updateRollout("ro-x", {}).catch((reason) => reason);
    expect(error).toBeInstanceOf(StoreRequestError);
    expect(error).toMatchObject({ status: 404, detail: "Rollout ro-x not found" });
    const schema = await client.queryRollouts({ status_in: ["done" as never] }).catch((reason) => reason);
    expect(schema).toMatchObject({ status: 422, detail: [{ loc: ["body", "status_in", 0] }] });
  });
});

describe("waiting", () => {
  test("a held dequeue outlives the client's time limit for requests", async () => {
    const { client, store } = connected({ timeoutMs: 100 });
    const held = client.dequeueRollouts({ worker_id: "w", wait_seconds: 30 });
    await Bun.sleep(250);
    await store.enqueueRollouts([{ input: 1 }]);
    expect(await held).toHaveLength(1);
  });

  test("it ends empty on abort, and the server drops it", async () => {
    const { client, store } = connected();
    const caller = new AbortController();
    const held = Promise.withResolvers<{ answer: Promise<unknown> }>();
    const dequeueRollouts = store.dequeueRollouts.bind(store);
    store.dequeueRollouts = (...request) => {
      const answer = dequeueRollouts(...request);
      held.resolve({ answer });
      return answer;
    };
    const dequeue = client.dequeueRollouts({ wait_seconds: 30 }, { signal: caller.signal });
    const wait = client.waitForRollouts(
      { rollout_ids: ["ro-x"], wait_seconds: 30 },
      { signal: caller.signal },
    );
    expect(await soon(wait)).toEqual([]);
    const { answer } = await soon(held.promise);
    caller.abort();
    expect(await soon(dequeue)).toEqual([]);
    expect(await soon(answer)).toEqual([]);
    await store.enqueueRollouts([{ input: 1 }]);
    expect(await client.dequeueRollouts({})).toHaveLength(1);
  });

  test("close ends what is in flight", async () => {
    const { client } = connected();
    const held = client.dequeueRollouts({ wait_seconds: 30 });
    await Bun.sleep(30);
    await client.close();
    await expect(held).rejects.toThrow("closed");
    await expect(client.statistics()).rejects.toThrow("closed");
  });

  // W-22
  test("a wait without limit is asked for in pieces until the store answers early", async () => {
    const { client, asked } = scripted([]);
    expect(await client.waitForRollouts({ rollout_ids: ["ro-1"] })).toEqual([]);
    expect(asked).toEqual(["/waits/rollouts"]);
  });
});

// W-19
describe("repeats", () => {
  test("5xx, 408 and answers that are no JSON are repeated after a health probe", async () => {
    const html = new Response("<html>", { headers: { "content-type": "text/html" } });
    const { client, asked } = scripted([failure(502), failure(408), html]);
    expect(await client.statistics()).toEqual([] as never);
    expect(asked).toEqual([
      "/statistics",
      "health",
      "/statistics",
      "health",
      "/statistics",
      "health",
      "/statistics",
    ]);
  });

  test("after the last one the failure is told in words", async () => {
    const { client, asked } = scripted([1, 2, 3, 4].map(() => failure(500)));
    const error = await client.statistics().catch((reason) => reason);
    expect(error).toBeInstanceOf(AglError);
    expect(error.message).toContain("did not answer GET /statistics: 500 oops");
    expect(asked.filter((path) => path === "/statistics")).toHaveLength(4);
  });

  test.each([400, 404, 405, 409, 413, 422, 429])("a %d is final", async (status) => {
    const { client, asked } = scripted([failure(status)]);
    await expect(client.statistics()).rejects.toThrow();
    expect(asked).toEqual(["/statistics"]);
  });

  // W-20; W-21: unlike upstream's client ours tells a failed dequeue from an empty queue
  test.each<[string, (store: StoreApi) => Promise<unknown>]>([
    ["enqueue", (store) => store.enqueueRollouts([{ input: 1 }])],
    ["dequeue", (store) => store.dequeueRollouts({})],
    ["start", (store) => store.startRollout({ input: 1 })],
    ["start attempt", (store) => store.startAttempt("ro-1")],
  ])("%s is not repeated when it may have been processed", async (_name, call) => {
    const { client, asked } = scripted([failure(500)]);
    await expect(call(client)).rejects.toBeInstanceOf(AglError);
    expect(asked).toHaveLength(1);
    // A busy store has processed nothing.
    const busy = scripted([failure(503)]);
    await call(busy.client);
    expect(busy.asked.filter((path) => path !== "health")).toHaveLength(2);
  });

  test("an enqueue that never arrived is repeated", async () => {
    let refusals = 1;
    const calls: string[] = [];
    const fetchOnceRefused: DirectFetch = async (url) => {
      calls.push(url.split("/").at(-1)!);
      if (url.endsWith("enqueue") && refusals-- > 0) {
        throw Object.assign(new Error("connection refused"), { code: "ECONNREFUSED" });
      }
      return Response.json([]);
    };
    const client = connectStore("http://127.0.0.1:1", { fetch: fetchOnceRefused, retryDelaysMs: [1] });
    expect(await client.enqueueRollouts([])).toEqual([]);
    expect(calls).toEqual(["enqueue", "health", "enqueue"]);
  });

  test("without a healthy store they stop", async () => {
    const calls: string[] = [];
    const unreachable: DirectFetch = async (url) => {
      calls.push(url.split("/").at(-1)!);
      throw Object.assign(new Error("connection refused"), { code: "ECONNREFUSED" });
    };
    const client = connectStore("http://127.0.0.1:1", { fetch: unreachable });
    const error = await client.statistics().catch((reason) => reason);
    expect(error).toMatchObject({ boundary: "store" });
    expect(error.remedy).toContain("address");
    expect(calls).toEqual(["statistics", "health", "health", "health", "health"]);
  });

  test("a store that hangs is given up at the time limit", async () => {
    const hanging: DirectFetch = (url, options) =>
      url.endsWith("/health")
        ? Promise.resolve(new Response("", { status: 500 }))
        : new Promise((_resolve, reject) =>
            options?.signal?.addEventListener("abort", () => reject(options.signal!.reason)),
          );
    const client = connectStore("http://127.0.0.1:1", { fetch: hanging, timeoutMs: 30 });
    await expect(client.statistics()).rejects.toBeInstanceOf(AglError);
  });
});

describe("against upstream's store", () => {
  // W-18
  test("its 500 for an unknown id is the refusal it means, at once", async () => {
    const traceback =
      'Traceback (most recent call last):\n  File "x.py"\nValueError: Rollout ro-x not found\n';
    const answer = { detail: "Internal server error", error_type: "ValueError", traceback };
    const { client, asked } = scripted([Response.json(answer, { status: 500 })]);
    const error = await client.startAttempt("ro-x").catch((reason) => reason);
    expect(error).toBeInstanceOf(StoreRequestError);
    expect(error).toMatchObject({ status: 404, detail: "Rollout ro-x not found" });
    expect(asked).toEqual(["/rollouts/ro-x/attempts"]);
  });

  test.each([404, 405])("a batch falls back to single spans for good (%d)", async (status) => {
    const ids = { rollout_id: "ro-1", attempt_id: "at-1" };
    const spans = [sampleSpan(ids), sampleSpan(ids), sampleSpan(ids)];
    const answers = [
      failure(status),
      Response.json(spans[0], { status: 201 }),
      Response.json(null, { status: 201 }),
      Response.json({ detail: "no such attempt" }, { status: 404 }),
    ];
    const { client, asked } = scripted(answers);
    const expected: SpanBatchResult = {
      stored: 1,
      duplicates: 1,
      rejected: [{ index: 2, detail: "no such attempt" }],
    };
    expect(await client.addSpans(spans)).toEqual(expected);
    await client.addSpans([spans[0]!]);
    expect(asked).toEqual(["/spans/batch", "/spans", "/spans", "/spans", "/spans"]);
  });
});
