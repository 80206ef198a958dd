import { describe, expect, test } from "bun:test";
import { sampleSpan } from "../helpers/sample-span.ts";
import { storeRequests } from "../helpers/store-requests.ts";

/** Two of everything, so that there is something to compare. */
async function filled() {
  const requests = storeRequests();
  const { store } = requests;
  const { rollout_id } = await store.startRollout({ input: { a: 1 }, worker_id: "w" });
  const second = await store.startAttempt(rollout_id, "v");
  await store.startRollout({ input: 1 });
  await store.addResources({});
  await store.addResources({});
  const ids = { rollout_id, attempt_id: second.attempt.attempt_id };
  await store.addSpans([sampleSpan(ids), sampleSpan(ids)]);
  return { ...requests, rollout_id };
}

const sortable: [listing: string, names: string, withoutOrder: string][] = [
  [
    "/rollouts?",
    "rollout_id, input, start_time, end_time, mode, resources_id, status, config, metadata",
    "input, config, metadata",
  ],
  [
    "/rollouts/ID/attempts?",
    "rollout_id, attempt_id, sequence_id, start_time, end_time, status, worker_id, last_heartbeat_time, metadata",
    "metadata",
  ],
  ["/resources?", "resources_id, create_time, update_time, version, resources", "resources"],
  [
    "/spans?rollout_id=ID&",
    "rollout_id, attempt_id, sequence_id, trace_id, span_id, parent_id, name, status, attributes, events, " +
      "links, start_time, end_time, context, parent, resource",
    "status, attributes, events, links, context, parent, resource",
  ],
  [
    "/workers?",
    "worker_id, status, heartbeat_stats, last_heartbeat_time, last_dequeue_time, last_busy_time, " +
      "last_idle_time, current_rollout_id, current_attempt_id",
    "heartbeat_stats",
  ],
];

describe.each(sortable)("GET %s", (listing, names, withoutOrder) => {
  async function asked() {
    const { get, rollout_id } = await filled();
    return (query: string) => get(listing.replace("ID", rollout_id) + query);
  }

  // section 11: what has no order is a 400
  test("sorts by the members of its items", async () => {
    const get = await asked();
    const unordered = withoutOrder.split(", ");
    for (const name of names.split(", ")) {
      const { status, body } = await get(`sort_by=${name}&sort_order=desc`);
      if (unordered.includes(name)) {
        expect(body).toEqual({ detail: `Cannot sort by ${name}: its values have no order` });
        expect(status).toBe(400);
      } else {
        expect([name, status, body.total]).toEqual([name, 200, 2]);
      }
    }
  });

  // Q-7, T-36
  test.each(["", "nope", "attempt", "__proto__", "row", "json"])("sort_by=%s is refused", async (name) => {
    const { status, body } = await (await asked())(`sort_by=${name}`);
    expect(status).toBe(400);
    expect(body.detail).toBe(`Invalid sort_by: ${name}, allowed fields are: ${names}`);
  });

  //
  test("pages", async () => {
    const get = await asked();
    const all = (await get("limit=-1")).body;
    expect(all).toMatchObject({ limit: -1, offset: 0, total: 2 });
    const first = (await get("limit=1")).body;
    const second = (await get("limit=1&offset=1")).body;
    expect([first.total, second.total]).toEqual([2, 2]);
    expect([...first.items, ...second.items]).toEqual(all.items);
    expect((await get("limit=5&offset=1")).body).toEqual({
      items: second.items,
      limit: 5,
      offset: 1,
      total: 2,
    });
    expect((await get("limit=5&offset=9")).body).toEqual({ items: [], limit: 5, offset: 9, total: 2 });
    const limit = "Limit must be greater than 0 or -1 for no limit";
    expect(await get("limit=0")).toMatchObject({ status: 400, body: { detail: limit } });
    expect(await get("limit=-2")).toMatchObject({ status: 400, body: { detail: limit } });
    const offset = "Offset must be greater than or equal to 0";
    expect(await get("offset=-1")).toMatchObject({ status: 400, body: { detail: offset } });
    for (const query of ["limit=1.5", "offset=x", "limit=", "sort_order=up"]) {
      expect([query, (await get(query)).status]).toEqual([query, 422]);
    }
  });
});

// the latest attempt of an unknown rollout once was an empty page whatever else was asked.
test("a query for the latest attempt is checked even where there is none", async () => {
  const { get } = storeRequests();
  const latest = "/spans?rollout_id=ro-x&attempt_id=latest";
  expect((await get(`${latest}&limit=7&offset=3`)).body).toEqual({
    items: [],
    limit: 7,
    offset: 3,
    total: 0,
  });
  expect((await get(`${latest}&sort_by=nope`)).status).toBe(400);
  expect((await get(`${latest}&limit=0`)).status).toBe(400);
});

//
test.each([
  ["/rollouts/search", { sort_order: "up" }],
  ["/rollouts/search", { filter_logic: "xor" }],
  ["/rollouts/search", { status_in: ["done"] }],
  ["/workers/search", { status_in: ["gone"] }],
  ["/spans/search", { rollout_id: "ro-x", filter_logic: "not" }],
  ["/rollouts/ro-x/attempts/search", { sort_order: "down" }],
])("POST %s with %p is a 422", async (path, body) => {
  expect((await storeRequests().post(path, body)).status).toBe(422);
});

// Q-10, T-11
test("workers and attempts: nulls are last among times and first among texts", async () => {
  const { get, store } = storeRequests();
  await store.updateWorker("late");
  await store.dequeueRollouts({ worker_id: "silent" });
  const { rollout_id } = await store.startRollout({ input: 1, worker_id: "busy" });
  const workers = async (query: string) =>
    (await get(`/workers?${query}`)).body.items.map((worker: any) => worker.worker_id).join(" ");
  expect(await workers("sort_by=last_heartbeat_time")).toBe("late silent busy");
  expect(await workers("sort_by=last_heartbeat_time&sort_order=desc")).toBe("silent busy late");
  expect(await workers("sort_by=current_rollout_id")).toBe("late silent busy");
  expect(await workers("sort_by=current_rollout_id&sort_order=desc")).toBe("busy late silent");
  // a later change moves no row.
  expect(await workers("limit=-1")).toBe("late silent busy");
  await store.startAttempt(rollout_id);
  const attempts = async (query: string) =>
    (await get(`/rollouts/${rollout_id}/attempts?${query}`)).body.items.map((one: any) => one.sequence_id);
  await store.updateAttempt(rollout_id, "latest", { last_heartbeat_time: 5 });
  expect(await attempts("sort_by=last_heartbeat_time")).toEqual([2, 1]);
  expect(await attempts("sort_by=last_heartbeat_time&sort_order=desc")).toEqual([1, 2]);
});

// Q-2, E-8, T-8
test("an empty list matches nothing, alone and beside another condition", async () => {
  const { post, store } = storeRequests();
  const [rollout] = await store.enqueueRollouts([{ input: 1 }, { input: 2 }]);
  const total = async (query: object) => (await post("/rollouts/search", query)).body.total;
  expect(await total({ rollout_id_in: [] })).toBe(0);
  expect(await total({ status_in: [], rollout_id_in: [rollout!.rollout_id] })).toBe(0);
  const either = { status_in: [], rollout_id_in: [rollout!.rollout_id], filter_logic: "or" };
  expect(await total(either)).toBe(1);
  expect((await post("/workers/search", { status_in: [] })).body.total).toBe(0);
});
