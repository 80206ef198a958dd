import { afterEach, describe, expect, test } from "bun:test";
import type { StoreApi } from "../../src/protocol/store-api.ts";
import { Observations } from "../../src/server/metrics/series.ts";
import { serveStore } from "../../src/server/serve.ts";
import type { StoreServer } from "../../src/server/serve.ts";
import { memoryStore } from "../helpers/memory-store.ts";
import { createTestClock } from "../helpers/test-clock.ts";

const servers: StoreServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.stop();
});

function served(store: StoreApi = memoryStore()) {
  const server = serveStore({ store, hostname: "127.0.0.1", port: 0 });
  servers.push(server);
  const ask = (path: string, init?: RequestInit) => fetch(`${server.url}${path}`, init);
  return {
    ask,
    post: (path: string, body: unknown, signal?: AbortSignal) =>
      ask(`/v1/agl${path}`, { method: "POST", body: JSON.stringify(body), ...(signal ? { signal } : {}) }),
    metrics: async () => (await ask("/v1/prometheus")).text(),
  };
}

/** The value of the sample with this name and these labels. */
function sample(text: string, name: string, labels: Record<string, string>): number | undefined {
  const inside = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  const line = text.split("\n").find((line) => line.startsWith(`${name}{${inside.join(",")}} `));
  return line === undefined ? undefined : Number(line.split(" ").at(-1));
}

// Section 8.4
const bounds =
  `1e-06 2e-06 5e-06 1e-05 2e-05 5e-05 0.0001 0.0002 0.0005 0.001 0.002 0.003 0.005 0.007 0.01 0.015 0.02
  0.03 0.05 0.07 0.1 0.2 0.3 0.5 0.7 1.0 2.0 3.0 5.0 7.0 10.0 12.0 15.0 20.0 25.0 30.0 40.0 50.0 60.0 90.0 120.0 180.0
  240.0 300.0 +Inf`.split(/\s+/);

describe("/v1/prometheus", () => {
  test("is text that Prometheus reads, with upstream's names and types, and the process's own", async () => {
    const { ask } = served();
    for (const path of ["/v1/prometheus", "/v1/prometheus/"]) {
      const answer = await ask(path);
      expect(answer.status).toBe(200);
      expect(answer.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
      const text = await answer.text();
      expect(text).toEndWith("\n");
      const types = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => `${name} ${type}`);
      expect(types.slice(0, 8)).toEqual([
        "agl_http_total counter",
        "agl_http_latency histogram",
        "agl_rollouts_total counter",
        "agl_rollouts_duration histogram",
        "agl_store_total counter",
        "agl_store_latency histogram",
        "agl_collections_total counter",
        "agl_collections_latency histogram",
      ]);
      expect(types).toContain("process_cpu_seconds_total counter");
      expect(types).toContain("process_resident_memory_bytes gauge");
    }
  });

  test("requests are counted by template, method and status", async () => {
    const { ask, post, metrics } = served();
    await post("/rollouts", { input: 1 });
    await ask("/v1/agl/rollouts/ro-1");
    await ask("/v1/agl/rollouts/ro-2");
    await ask("/v1/agl/rollouts/ro-2/attempts/latest");
    await post("/rollouts/search", {});
    await post("/rollouts/ro-3/attempts/at-1", { status: "failed" });
    await ask("/v1/agl/workers/w", { method: "DELETE" });
    await ask("/made/up/1");
    await ask("/made/up/2");
    const text = await metrics();
    const count = (path: string, method: string, status: string) =>
      sample(text, "agl_http_total", { path, method, status });
    expect(count("/v1/agl/rollouts", "POST", "201")).toBe(1);
    expect(count("/v1/agl/rollouts/{rollout_id}", "GET", "200")).toBe(2);
    expect(count("/v1/agl/rollouts/{rollout_id}/attempts/latest", "GET", "200")).toBe(1);
    expect(count("/v1/agl/rollouts/search", "POST", "200")).toBe(1);
    expect(count("/v1/agl/rollouts/{rollout_id}/attempts/{attempt_id}", "POST", "404")).toBe(1);
    expect(count("/v1/agl/workers/{worker_id}", "DELETE", "405")).toBe(1);
    // What clients make up is one series.
    expect(count("unknown", "GET", "404")).toBe(2);
    const labels = { path: "/v1/agl/rollouts/{rollout_id}", method: "GET", status: "200" };
    expect(sample(text, "agl_http_latency_count", labels)).toBe(2);
    const buckets = text
      .split("\n")
      .filter((line) => line.startsWith('agl_http_latency_bucket{path="/v1/agl/rollouts",'));
    expect(buckets.map((line) => /le="([^"]+)"/.exec(line)?.[1])).toEqual(bounds);
  });

  test("a client that went away is a 499, and a defect has the name of its error", async () => {
    const store = memoryStore();
    const failing = new Proxy(store, {
      get(target, name) {
        if (name === "statistics") return () => Promise.reject(new TypeError("a defect"));
        const value = Reflect.get(target, name, target);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
    const { ask, post, metrics } = served(failing);
    const caller = new AbortController();
    const held = post("/queues/rollouts/dequeue", { wait_seconds: 30 }, caller.signal);
    held.catch(() => {});
    await Bun.sleep(50);
    caller.abort();
    expect((await ask("/v1/agl/statistics")).status).toBe(500);
    const gone = { path: "/v1/agl/queues/rollouts/dequeue", method: "POST", status: "499" };
    let text = await metrics();
    for (let tries = 0; sample(text, "agl_http_total", gone) === undefined && tries < 100; tries++) {
      await Bun.sleep(20);
      text = await metrics();
    }
    expect(sample(text, "agl_http_total", gone)).toBe(1);
    const defect = { path: "/v1/agl/statistics", method: "GET", status: "TypeError" };
    expect(sample(text, "agl_http_total", defect)).toBe(1);
    const operation = { method: "statistics", store_pubmeth: "statistics", status: "TypeError" };
    expect(sample(text, "agl_store_total", operation)).toBe(1);
  });

  test("rollouts are counted when they end, with how long they took, however they end", async () => {
    const clock = createTestClock();
    const store = memoryStore({ now: clock.now });
    const { post, metrics } = served(store);
    const [train] = await store.enqueueRollouts([{ input: 1, mode: "train" }]);
    const taken = await store.startRollout({ input: 2, config: { timeout_seconds: 20 } });
    clock.advance(7.5);
    await post(`/rollouts/${train!.rollout_id}`, { status: "succeeded" });
    expect(sample(await metrics(), "agl_rollouts_total", { status: "succeeded", mode: "train" })).toBe(1);
    clock.advance(15);
    // The scan ends it.
    await post("/rollouts/search", {});
    expect(await store.getRollout(taken.rollout_id)).toMatchObject({ status: "failed" });
    const text = await metrics();
    expect(sample(text, "agl_rollouts_total", { status: "failed", mode: "unknown" })).toBe(1);
    expect(sample(text, "agl_rollouts_duration_sum", { status: "succeeded", mode: "train" })).toBeCloseTo(
      7.5,
      1,
    );
    expect(sample(text, "agl_rollouts_duration_count", { status: "failed", mode: "unknown" })).toBe(1);
    const scan = "_scan_for_unhealthy_rollouts";
    expect(
      sample(text, "agl_store_total", { method: scan, store_pubmeth: scan, status: "OK" }),
    ).toBeGreaterThan(0);
  });

  test("operations bear upstream's names", async () => {
    const { post, metrics } = served();
    await post("/queues/rollouts/enqueue", { rollouts: [{ input: 1 }] });
    await post("/queues/rollouts/dequeue", { worker_id: "w" });
    await post("/rollouts/none", { status: "failed" });
    const text = await metrics();
    const count = (name: string, status: string) =>
      sample(text, "agl_store_total", { method: name, store_pubmeth: name, status });
    expect(count("enqueue_many_rollouts", "OK")).toBe(1);
    expect(count("dequeue_many_rollouts", "OK")).toBe(1);
    expect(count("update_rollout", "StoreRequestError")).toBe(1);
    const collection = {
      store_pubmeth: "dequeue_many_rollouts",
      operation: "dequeue",
      collection: "rollout_queue",
      store_privmeth: "dequeue_many_rollouts",
      status: "OK",
    };
    expect(sample(text, "agl_collections_total", collection)).toBe(1);
    expect(sample(text, "agl_collections_latency_count", collection)).toBe(1);
  });
});

describe("observations", () => {
  const naming = { counter: "c", histogram: "h", help: "x.", labels: ["a"] };

  test("fall into every bucket whose bound they do not pass", () => {
    const observations = new Observations([0.1, 1, 10]);
    for (const seconds of [0.05, 0.1, 0.5, 1, 10.5]) observations.observe(["v"], seconds);
    expect(observations.render(naming)).toEqual([
      "# HELP c x.",
      "# TYPE c counter",
      'c{a="v"} 5',
      "# HELP h x. In seconds.",
      "# TYPE h histogram",
      'h_bucket{a="v",le="0.1"} 2',
      'h_bucket{a="v",le="1.0"} 4',
      'h_bucket{a="v",le="10.0"} 4',
      'h_bucket{a="v",le="+Inf"} 5',
      'h_count{a="v"} 5',
      'h_sum{a="v"} 12.15',
    ]);
  });

  test("have their label values escaped", () => {
    const observations = new Observations([]);
    observations.observe(['quote " back \\ line \n'], 1);
    expect(observations.render(naming)[2]).toBe('c{a="quote \\" back \\\\ line \\n"} 1');
  });
});
