import { connect } from "node:net";
import { afterEach, describe, expect, test } from "bun:test";
import type { Logger } from "../../src/log.ts";
import type { CallOptions, StoreApi } from "../../src/protocol/store-api.ts";
import type { Statistics } from "../../src/protocol/types.ts";
import { serveStore } from "../../src/server/serve.ts";
import type { StoreServer } from "../../src/server/serve.ts";
import { memoryStore } from "../helpers/memory-store.ts";
import { until } from "../helpers/processes.ts";
import { soon } from "../helpers/soon.ts";

const servers: StoreServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.stop();
});

function serve(store: StoreApi = memoryStore(), log?: Logger) {
  const server = serveStore({ store, hostname: "127.0.0.1", port: 0, log });
  servers.push(server);
  return server;
}

function post(server: StoreServer, path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  return fetch(`${server.url}/v1/agl${path}`, { method: "POST", body: JSON.stringify(body), signal });
}

const settled = (promise: Promise<unknown>) =>
  Promise.race([promise.then(() => true), Bun.sleep(50).then(() => false)]);

/** The store with some methods of its own; the others stay bound to it. */
function overriding(store: StoreApi, methods: Partial<StoreApi>): StoreApi {
  return new Proxy(store, {
    get: (target, name) => {
      const own = Reflect.get(methods, name);
      if (own !== undefined) return own;
      const value = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** Sends a request by hand, so that the connection can be cut without a word. */
async function rawPost(server: StoreServer, path: string, body: string) {
  const socket = connect(server.port, "127.0.0.1");
  await new Promise((resolve) => socket.once("connect", resolve));
  socket.write(
    `POST /v1/agl${path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n` +
      `content-length: ${body.length}\r\n\r\n${body}`,
  );
  return socket;
}

describe("a held answer over HTTP", () => {
  // E-19
  test("is sent by the write that it waits for", async () => {
    const store = memoryStore();
    const server = serve(store);
    const held = post(server, "/queues/rollouts/dequeue", { wait_seconds: 30, worker_id: "w" });
    expect(await settled(held)).toBe(false);
    await post(server, "/queues/rollouts/enqueue", { rollouts: [{ input: 1 }] });
    const [taken] = (await (await held).json()) as any[];
    const wait = post(server, "/waits/rollouts", { rollout_ids: [taken.rollout_id], timeout: null });
    expect(await settled(wait)).toBe(false);
    await post(server, `/rollouts/${taken.rollout_id}/attempts/latest`, { status: "succeeded" });
    expect(await (await wait).json()).toMatchObject([{ status: "succeeded" }]);
  });

  const departures = ["abort", "cut"] as const;

  /** Asks, and goes away once the store holds the answer. Returns what the store says when it lets go of it. */
  async function askAndLeave(
    store: StoreApi,
    method: "dequeueRollouts" | "waitForRollouts",
    { path, body, how }: { path: string; body: object; how: (typeof departures)[number] },
  ): Promise<unknown> {
    const held = Promise.withResolvers<{ answer: Promise<unknown> }>();
    const holding = (request: never, options?: CallOptions) => {
      const answer = store[method](request, options);
      held.resolve({ answer });
      return answer as Promise<never>;
    };
    const server = serve(overriding(store, { [method]: holding }));
    if (how === "abort") {
      const caller = new AbortController();
      post(server, path, body, caller.signal).catch(() => {});
      const { answer } = await soon(held.promise);
      caller.abort();
      return await soon(answer);
    }
    const socket = await rawPost(server, path, JSON.stringify(body));
    const { answer } = await soon(held.promise);
    socket.destroy();
    return await soon(answer);
  }

  // E-20, T-41
  test.each(departures)("of a client that is gone (%s) gets no rollout", async (how) => {
    const store = memoryStore();
    const body = { wait_seconds: 30, worker_id: "gone" };
    const asked = { path: "/queues/rollouts/dequeue", body, how };
    expect(await askAndLeave(store, "dequeueRollouts", asked)).toEqual([]);
    await store.enqueueRollouts([{ input: 1 }]);
    expect(await store.dequeueRollouts({ worker_id: "here" })).toHaveLength(1);
  });

  // E-20
  test.each(departures)("of a client that is gone (%s) waits for nothing any more", async (how) => {
    const store = memoryStore();
    const { rollout_id } = await store.startRollout({ input: 1 });
    const body = { rollout_ids: [rollout_id], timeout: null };
    expect(await askAndLeave(store, "waitForRollouts", { path: "/waits/rollouts", body, how })).toEqual([]);
  });

  // W-22, W-23
  test("outlives the idle time after which Bun cuts connections by default, and so does an idle one", async () => {
    const server = serve();
    const idle = await rawPost(server, "/queues/rollouts/dequeue", "{}");
    const answers: string[] = [];
    idle.on("data", (bytes) => answers.push(bytes.toString()));
    const started = performance.now();
    const answer = await post(server, "/queues/rollouts/dequeue", { wait_seconds: 11.5 });
    expect(await answer.json()).toEqual([]);
    expect(performance.now() - started).toBeGreaterThan(11_000);
    expect(answers).toHaveLength(1);
    idle.write("GET /v1/agl/health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
    await new Promise((resolve) => idle.once("data", resolve).once("close", resolve));
    expect(answers[1]).toStartWith("HTTP/1.1 200");
    idle.destroy();
  }, 30_000);

  // W-24
  test("stands in nobody's way", async () => {
    const server = serve();
    const started = await post(server, "/rollouts", { input: 1 });
    const { rollout_id } = (await started.json()) as { rollout_id: string };
    const caller = new AbortController();
    const held = Array.from({ length: 100 }, () => [
      post(server, "/waits/rollouts", { rollout_ids: [rollout_id], timeout: null }, caller.signal),
      post(server, "/queues/rollouts/dequeue", { wait_seconds: 30 }, caller.signal),
    ]).flat();
    const first = Promise.race(held);
    expect(await settled(first)).toBe(false);
    for (const expected of [1, 2]) {
      const answer = await post(server, "/spans/next", { rollout_id, attempt_id: "at-x" });
      expect(await answer.json()).toEqual({ sequence_id: expected });
    }
    expect(await settled(first)).toBe(false);
    caller.abort();
    await Promise.allSettled(held);
  });
});

describe("stopping", () => {
  test("ends held answers, answers what was accepted, and then refuses", async () => {
    const store = memoryStore();
    const [rollout] = await store.enqueueRollouts([{ input: 1 }]);
    await store.updateRollout(rollout!.rollout_id, { status: "running" });
    const arrived = new Set<string>();
    const slow = Promise.withResolvers<Statistics>();
    const server = serve(
      overriding(store, {
        dequeueRollouts: (...request) => (arrived.add("dequeue"), store.dequeueRollouts(...request)),
        waitForRollouts: (...request) => (arrived.add("wait"), store.waitForRollouts(...request)),
        statistics: () => (arrived.add("statistics"), slow.promise),
      }),
    );
    const held = post(server, "/queues/rollouts/dequeue", { wait_seconds: 30 });
    const wait = post(server, "/waits/rollouts", { rollout_ids: [rollout!.rollout_id] });
    const accepted = fetch(`${server.url}/v1/agl/statistics`);
    await until("all three are asked", () => arrived.size === 3);
    const stopped = server.stop();
    slow.resolve({ name: "slow" } as Statistics);
    await stopped;
    expect(await (await held).json()).toEqual([]);
    // An empty list would say that all of them are unknown.
    expect((await wait).status).toBe(503);
    expect(await (await accepted).json()).toEqual({ name: "slow" });
    await expect(fetch(`${server.url}/v1/agl/health`)).rejects.toThrow();
  });

  // C-1
  test("a taken port is refused in words, and ends the command with 1", () => {
    const server = serve();
    const again = () => serveStore({ store: memoryStore(), hostname: "127.0.0.1", port: server.port });
    expect(again).toThrow(expect.objectContaining({ boundary: "store", exitCode: 1 }));
    expect(again).toThrow(`port ${server.port} on 127.0.0.1 is already in use`);
  });
});

test("a body over the limit is refused over HTTP, too", async () => {
  const server = serve();
  const body = `{"rollouts":[{"input":"${"x".repeat(65 * 1024 * 1024)}"}]}`;
  const answer = await fetch(`${server.url}/v1/agl/queues/rollouts/enqueue`, { method: "POST", body });
  expect(answer.status).toBe(413);
});
