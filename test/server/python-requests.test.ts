import { describe, expect, test } from "bun:test";
import { storeRequests } from "../helpers/store-requests.ts";

/** Requests as upstream's Python client words them. */

// E-4
test("every member of an enqueue is sent, null for default", async () => {
  const { post, store } = storeRequests();
  const { resources_id } = await store.addResources({});
  const request = { input: "task", mode: null, resources_id: null, config: null, metadata: null };
  const { status, body } = await post("/queues/rollouts/enqueue", { rollouts: [request, request] });
  expect(status).toBe(201);
  const config = { timeout_seconds: null, unresponsive_seconds: null, max_attempts: 1, retry_condition: [] };
  const expected = { input: "task", mode: null, resources_id, config, metadata: {}, status: "queuing" };
  expect(body).toMatchObject([expected, expected]);
});

describe("queries", () => {
  // E-10
  test("rollouts: deprecated members in the body are unknown and ignored", async () => {
    const { post, store } = storeRequests();
    await store.enqueueRollouts([{ input: 1 }, { input: 2 }]);
    const request = { limit: -1, offset: 0, filter_logic: "and" };
    expect((await post("/rollouts/search", request)).body.total).toBe(2);
    const deprecated = { ...request, status: ["failed"], rollout_ids: ["ro-x"] };
    expect((await post("/rollouts/search", deprecated)).body.total).toBe(2);
    expect((await post("/rollouts/search", { ...request, status_in: ["failed"] })).body.total).toBe(0);
  });

  // W-25
  test("workers: without limit and offset all are meant", async () => {
    const { post, store } = storeRequests();
    for (const number of [0, 1, 2]) await store.updateWorker(`Worker-${number}`);
    const { body } = await post("/workers/search", { filter_logic: "and" });
    expect(body).toMatchObject({ limit: -1, offset: 0, total: 3 });
    expect(body.items).toHaveLength(3);
  });

  // W-25, section 3.10
  test("attempts: without sort_by they come by number, with null in the order of insertion", async () => {
    const { post, store } = storeRequests();
    const { rollout_id } = await store.startRollout({ input: 1 });
    await store.startAttempt(rollout_id);
    const search = async (body: object) => {
      const page = await post(`/rollouts/${rollout_id}/attempts/search`, body);
      return page.body.items.map((attempt: any) => attempt.sequence_id);
    };
    expect(await search({ limit: -1, offset: 0 })).toEqual([1, 2]);
    expect(await search({ limit: -1, offset: 0, sort_order: "desc" })).toEqual([2, 1]);
    expect(await search({ limit: -1, offset: 0, sort_by: null, sort_order: "desc" })).toEqual([1, 2]);
  });

  // section 3.14
  test("resources: both filters always have to match", async () => {
    const { get, store } = storeRequests();
    await store.updateResources("one", {});
    await store.updateResources("other", {});
    const total = async (query: string) => (await get(`/resources?${query}`)).body.total;
    expect(await total("resources_id=one&resources_id_contains=o&filter_logic=or")).toBe(1);
    expect(await total("resources_id=one&resources_id_contains=the&filter_logic=or")).toBe(0);
  });
});

// W-21: the client takes anything but a 200 with a list for an empty queue, and never asks twice.
test.each([{ limit: 1, worker_id: "Worker-0" }, { limit: 8, worker_id: null }, { limit: 0 }, { limit: -1 }])(
  "a dequeue with %p is answered at once, also when the queue is empty",
  async (request) => {
    const { post, store } = storeRequests();
    expect(await post("/queues/rollouts/dequeue", request)).toMatchObject({ status: 200, body: [] });
    await store.enqueueRollouts([{ input: 1 }]);
    const { status, body } = await post("/queues/rollouts/dequeue", request);
    expect(status).toBe(200);
    expect(body).toHaveLength(request.limit > 0 ? 1 : 0);
  },
);

// D-6, D-7, D-8, T-1: the client refuses an attempt that is null or of another rollout.
test("the attempt of a rollout is its own: the new one in replies, the latest in queries", async () => {
  const { get, post } = storeRequests();
  const [queued] = (await post("/queues/rollouts/enqueue", { rollouts: [{ input: 1 }] })).body;
  const path = `/rollouts/${queued.rollout_id}`;
  const search = async () => (await post("/rollouts/search", { rollout_id_in: [queued.rollout_id] })).body;
  for (const found of [queued, (await get(path)).body, (await search()).items[0]]) {
    expect(found.rollout_id).toBe(queued.rollout_id);
    expect(found).not.toHaveProperty("attempt");
  }
  const [taken] = (await post("/queues/rollouts/dequeue")).body;
  const again = (await post(`${path}/attempts`)).body;
  const started = (await post("/rollouts", { input: 2 })).body;
  for (const found of [taken, again, started]) {
    expect(found.attempt.rollout_id).toBe(found.rollout_id);
    expect(found.attempt.attempt_id).toMatch(/^at-[0-9a-f]{8}$/);
  }
  expect([taken, again, started].map(({ attempt }) => attempt.sequence_id)).toEqual([1, 2, 1]);
  expect((await get(path)).body).toEqual(again);
  expect((await search()).items).toEqual([again]);
});

// E-14
test("an updated rollout comes without its attempt, whatever was updated", async () => {
  const { post, store } = storeRequests();
  const { rollout_id } = await store.startRollout({ input: 1 });
  for (const patch of [{}, { mode: "val" }, { status: "running" }, { status: "cancelled" }]) {
    const { body } = await post(`/rollouts/${rollout_id}`, patch);
    expect(body).toMatchObject(patch);
    expect(body).not.toHaveProperty("attempt");
  }
});

// D-1, D-2
test("times are seconds of the server's clock, with a fraction", async () => {
  const { post } = storeRequests();
  const before = Date.now() / 1000;
  const resources = (await post("/resources", {})).body;
  const rollout = (await post("/rollouts", { input: 1, worker_id: "w" })).body;
  const path = `/rollouts/${rollout.rollout_id}/attempts/latest`;
  const attempt = (await post(path, { status: "succeeded", last_heartbeat_time: 12.5 })).body;
  const worker = (await post("/workers/w")).body;
  const times = [
    resources.create_time,
    rollout.start_time,
    rollout.attempt.start_time,
    attempt.end_time,
    worker.last_heartbeat_time,
    worker.last_busy_time,
    worker.last_idle_time,
  ];
  for (const time of times) {
    expect(time).toBeGreaterThanOrEqual(before);
    expect(time).toBeLessThan(before + 60);
  }
  expect(times.some((time) => !Number.isInteger(time * 1000))).toBe(true);
  expect(resources.update_time).toBe(resources.create_time);
  // What a caller says is kept.
  expect(attempt.last_heartbeat_time).toBe(12.5);
});

// section 4.4
test.each([0, -1, 0.5])("a time limit of %d seconds is accepted", async (seconds) => {
  const config = { timeout_seconds: seconds, unresponsive_seconds: seconds };
  const { status, body } = await storeRequests().post("/queues/rollouts/enqueue", {
    rollouts: [{ input: 1, config }],
  });
  expect(status).toBe(201);
  expect(body[0].config).toMatchObject(config);
});

// W-12: a number that is none, where a number or null may stand
test("NaN is null in times and limits", async () => {
  const { post } = storeRequests();
  const config = '{"timeout_seconds":NaN,"unresponsive_seconds":-Infinity}';
  const { body } = await post("/rollouts", `{"input":[NaN],"metadata":{"a":-Infinity},"config":${config}}`);
  expect(body).toMatchObject({ input: [null], metadata: { a: null } });
  expect(body.config).toMatchObject({ timeout_seconds: null, unresponsive_seconds: null });
});

// W-13
test.each([
  ["a number for a text", "/rollouts", { input: 1, resources_id: 7 }],
  ["a boolean for a text", "/rollouts", { input: 1, worker_id: true }],
  ["a fraction for an integer", "/queues/rollouts/dequeue", { limit: 1.5 }],
  ["a text for a list", "/rollouts/search", { status_in: "failed" }],
  ["a list for an object", "/rollouts", { input: 1, metadata: [] }],
])("%s is a 422", async (_name, path, body) => {
  expect((await storeRequests().post(path, body)).status).toBe(422);
});
