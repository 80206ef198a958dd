import { describe, expect, test } from "bun:test";
import { sampleSpan } from "../helpers/sample-span.ts";
import { soon } from "../helpers/soon.ts";
import { storeRequests } from "../helpers/store-requests.ts";

describe("health and statistics", () => {
  // section 3.1 and our extension
  test("the health answer tells the store's id and that it can wait", async () => {
    const { get, store } = storeRequests();
    const { status, body } = await get("/health");
    expect(status).toBe(200);
    expect(body).toEqual({ status: "ok", store_id: store.storeId, wait_seconds: true });
  });

  // section 3.2
  test("statistics", async () => {
    const { get } = storeRequests();
    expect((await get("/statistics")).body).toMatchObject({ total_rollouts: 0, total_spans: 0 });
  });
});

describe("queue", () => {
  // E-1, W-15, W-16
  test("enqueue answers 201 in the order of the request, absent members as null", async () => {
    const { post } = storeRequests();
    const rollouts = [{ input: 1 }, { input: null, mode: "val", config: null, metadata: null, extra: 1 }];
    const { status, body, headers } = await post("/queues/rollouts/enqueue", { rollouts });
    expect(status).toBe(201);
    expect(headers.get("content-type")).toStartWith("application/json");
    expect(body.map(({ input }: any) => input)).toEqual([1, null]);
    expect(Object.keys(body[1])).toEqual([
      "rollout_id",
      "input",
      "start_time",
      "end_time",
      "mode",
      "resources_id",
      "status",
      "config",
      "metadata",
    ]);
    expect(body[1].metadata).toEqual({});
    expect(await post("/queues/rollouts/enqueue", { rollouts: [] })).toMatchObject({ status: 201, body: [] });
  });

  // E-2, E-3, W-9, section 1.4
  test("a bad entry refuses the batch and says where", async () => {
    const { post, store } = storeRequests();
    const refused = await post("/queues/rollouts/enqueue", { rollouts: [{ input: 1 }, { mode: "train" }] });
    expect(refused.status).toBe(422);
    expect(refused.body).toEqual({
      detail: [
        {
          type: "missing",
          loc: ["body", "rollouts", 1, "input"],
          msg: "Field required",
          input: { mode: "train" },
        },
      ],
    });
    expect((await store.statistics()).total_rollouts).toBe(0);
    const absent = await post("/queues/rollouts/enqueue");
    expect(absent.status).toBe(422);
    expect(absent.body.detail).toEqual([
      { type: "missing", loc: ["body"], msg: "Field required", input: null },
    ]);
    expect((await post("/queues/rollouts/enqueue", {})).body.detail[0].loc).toEqual(["body", "rollouts"]);
  });

  // W-13, section 4.4
  test.each([
    [{ max_attempts: 0 }, "max_attempts"],
    [{ max_attempts: 1.5 }, "max_attempts"],
    [{ max_attempts: null }, "max_attempts"],
    [{ timeout_seconds: "soon" }, "timeout_seconds"],
    [{ retry_condition: ["late"] }, "retry_condition"],
    [{ retry_condition: null }, "retry_condition"],
  ])("config %p is a 422", async (config, member) => {
    const { post } = storeRequests();
    const { status, body } = await post("/rollouts", { input: 1, config });
    expect(status).toBe(422);
    expect(body.detail[0].loc.slice(0, 3)).toEqual(["body", "config", member]);
  });

  // W-12, W-13, T-32
  test("numeric strings, integral floats and Python's tokens are understood", async () => {
    const { post } = storeRequests();
    const text =
      '{"input":NaN,"config":{"max_attempts":"3","timeout_seconds":Infinity,"unresponsive_seconds":2.0}}';
    const { status, body } = await post("/rollouts", text);
    expect(status).toBe(201);
    expect(body.input).toBeNull();
    expect(body.config).toEqual({
      timeout_seconds: null,
      unresponsive_seconds: 2,
      max_attempts: 3,
      retry_condition: [],
    });
  });

  // E-5, E-7, W-8, T-4
  test.each([
    ["no body at all", undefined],
    ["an empty body", ""],
    ["null", "null"],
    ["an object", "{}"],
  ])("dequeue takes %s", async (_name, body) => {
    const { post, store } = storeRequests();
    await store.enqueueRollouts([{ input: 1 }, { input: 2 }]);
    const answer = await post("/queues/rollouts/dequeue", body, {
      "content-type": "application/octet-stream",
    });
    expect(answer.status).toBe(200);
    expect(answer.body).toHaveLength(1);
    expect(answer.body[0].attempt.rollout_id).toBe(answer.body[0].rollout_id);
  });

  // E-6, T-7
  test("a limit of 0 is an empty answer, a limit in words a 422", async () => {
    const { post, store } = storeRequests();
    await store.enqueueRollouts([{ input: 1 }]);
    expect(await post("/queues/rollouts/dequeue", { limit: 0 })).toMatchObject({ status: 200, body: [] });
    expect(await post("/queues/rollouts/dequeue", { limit: "2" })).toMatchObject({ status: 200 });
    expect((await post("/queues/rollouts/dequeue", { limit: "two" })).status).toBe(422);
    expect((await post("/queues/rollouts/dequeue", { wait_seconds: -1 })).status).toBe(422);
  });

  // section 3.13
  test("waits", async () => {
    const { post, store } = storeRequests();
    const [rollout] = await store.enqueueRollouts([{ input: 1 }]);
    const rollout_ids = [rollout!.rollout_id];
    expect(await post("/waits/rollouts", { rollout_ids, timeout: 0 })).toMatchObject({
      status: 200,
      body: [],
    });
    const waiting = post("/waits/rollouts", { rollout_ids, timeout: null });
    const any = post("/waits/rollouts", { rollout_ids, timeout: 0, wait_seconds: 30 });
    await Bun.sleep(5);
    await store.updateRollout(rollout!.rollout_id, { status: "failed" });
    expect((await waiting).body).toMatchObject([{ rollout_id: rollout!.rollout_id, status: "failed" }]);
    expect((await soon(any)).body).toHaveLength(1);
    expect((await post("/waits/rollouts", { timeout: 0 })).status).toBe(422);
  });
});

describe("rollouts", () => {
  // section 3.5
  test("start", async () => {
    const { post } = storeRequests();
    const { status, body } = await post("/rollouts", { input: { q: 1 }, worker_id: "w" });
    expect(status).toBe(201);
    expect(body).toMatchObject({ status: "preparing", attempt: { sequence_id: 1, worker_id: "w" } });
    expect(Object.keys(body).at(-1)).toBe("attempt");
    expect((await post("/rollouts", {})).status).toBe(422);
  });

  // Q-14, E-8, E-9, T-37
  test("GET and POST forms give the same page", async () => {
    const { get, post, store } = storeRequests();
    const rollouts = await store.enqueueRollouts([{ input: 1 }, { input: 2 }, { input: 3, mode: "val" }]);
    await store.updateRollout(rollouts[0]!.rollout_id, { status: "failed" });
    await store.dequeueRollouts({});
    const query = { status_in: ["failed", "queuing"], sort_by: "start_time", sort_order: "desc", limit: 1 };
    const found = await get(
      "/rollouts?status_in=failed&status_in=queuing&sort_by=start_time&sort_order=desc&limit=1&unknown=1",
    );
    expect(found.body).toMatchObject({ limit: 1, offset: 0, total: 2, items: [{ input: 3 }] });
    expect((await post("/rollouts/search", query)).body).toEqual(found.body);
    expect((await get("/rollouts?mode_in=val")).body.total).toBe(1);
    expect((await post("/rollouts/search", {})).body.total).toBe(3);
    expect((await post("/rollouts/search", { status_in: [] })).body.total).toBe(0);
    expect((await post("/rollouts/search", { status_in: null })).body.total).toBe(3);
  });

  // E-8, Q-6, Q-9, T-36
  test.each([
    ["status_in=", 422],
    ["status_in=failed,queuing", 422],
    ["sort_order=up", 422],
    ["filter_logic=xor", 422],
    ["limit=many", 422],
    ["limit=0", 400],
    ["offset=-1", 400],
    ["sort_by=", 400],
    ["sort_by=nope", 400],
    ["rollout_id_in=", 200],
  ])("GET /rollouts?%s is a %d", async (query, status) => {
    expect((await storeRequests().get(`/rollouts?${query}`)).status).toBe(status);
  });

  // E-9
  test.each([["[]"], ["1.0"], ["1"], ['"x"'], ["null"]])("a search for %s is a 422", async (text) => {
    expect((await storeRequests().post("/rollouts/search", text)).status).toBe(422);
  });

  // section 3.7, W-18, D-7, T-1, T-34
  test("one rollout, with and without an attempt, and none", async () => {
    const { get, store } = storeRequests();
    const [rollout] = await store.enqueueRollouts([{ input: 1 }]);
    const path = `/rollouts/${rollout!.rollout_id}`;
    expect((await get(path)).body).not.toHaveProperty("attempt");
    const attempted = await store.startAttempt(rollout!.rollout_id);
    expect((await get(path)).body).toEqual(attempted);
    const unknown = await get("/rollouts/ro-x");
    expect(unknown).toMatchObject({ status: 200, text: "null" });
    expect(unknown.headers.get("content-type")).toStartWith("application/json");
  });

  // E-11, E-12, T-5
  test("update distinguishes absent, null and refused null", async () => {
    const { post, store } = storeRequests();
    const [rollout] = await store.enqueueRollouts([{ input: 1, mode: "train", metadata: { a: 1 } }]);
    const path = `/rollouts/${rollout!.rollout_id}`;
    expect((await post(path, {})).body).toEqual(rollout);
    expect((await post(path, { metadata: null, input: null })).body).toMatchObject({
      metadata: null,
      input: null,
      mode: "train",
    });
    for (const member of ["status", "config"]) {
      const refused = await post(path, { [member]: null });
      expect(refused.status).toBe(400);
      expect(refused.body).toEqual({ detail: `${member} is invalid; it cannot be a null value.` });
    }
    expect((await post(path, { status: "done" })).status).toBe(422);
    expect((await post(path)).status).toBe(422);
    expect(await post("/rollouts/ro-x", {})).toMatchObject({
      status: 404,
      body: { detail: "Rollout ro-x not found" },
    });
  });
});

describe("attempts", () => {
  // sections 3.9 to 3.12, E-16, W-4, T-35
  test("start, list, latest, update", async () => {
    const { get, post, store } = storeRequests();
    const [rollout] = await store.enqueueRollouts([{ input: 1 }]);
    const path = `/rollouts/${rollout!.rollout_id}/attempts`;
    expect(await get(`${path}/latest`)).toMatchObject({ status: 200, text: "null" });
    expect((await post(path)).status).toBe(201);
    const second = await post(path, { worker_id: "w" });
    expect(second.body.attempt).toMatchObject({ sequence_id: 2, worker_id: "w" });
    expect((await get(`${path}/latest`)).body).toEqual(second.body.attempt);
    const page = await get(`${path}?sort_order=desc&limit=1`);
    expect(page.body).toEqual({ items: [second.body.attempt], limit: 1, offset: 0, total: 2 });
    expect((await post(`${path}/search`, { sort_order: "desc", limit: 1 })).body).toEqual(page.body);
    expect((await post(`${path}/latest`, { status: "failed" })).body).toMatchObject({
      sequence_id: 2,
      status: "failed",
    });
    const byId = await post(`${path}/${second.body.attempt.attempt_id}`, { worker_id: "", metadata: {} });
    expect(byId.body).toMatchObject({ worker_id: "", metadata: {} });
    expect((await get(`${path}/at-x`)).status).toBe(405);
  });

  // E-15, W-18
  test("refused updates", async () => {
    const { post, store } = storeRequests();
    const { rollout_id } = await store.startRollout({ input: 1 });
    const path = `/rollouts/${rollout_id}/attempts`;
    for (const member of ["status", "worker_id", "last_heartbeat_time", "metadata"]) {
      const refused = await post(`${path}/latest`, { [member]: null });
      expect(refused.status).toBe(400);
      expect(refused.body.detail).toBe(`${member} is invalid; it cannot be a null value.`);
    }
    expect((await post(`${path}/latest`)).status).toBe(422);
    expect((await post(`${path}/latest`, { metadata: [] })).status).toBe(422);
    expect((await post(`${path}/at-x`, {})).status).toBe(404);
    expect((await post("/rollouts/ro-x/attempts", {})).status).toBe(404);
    expect((await post("/rollouts/ro-x/attempts/latest", {})).status).toBe(404);
    expect((await storeRequests().get("/rollouts/ro-x/attempts")).body.total).toBe(0);
  });
});

describe("resources", () => {
  const llm = { resource_type: "proxy_llm", endpoint: "http://x/v1", model: "m" };

  // section 3.14, 4.8, W-3, W-4
  test("add, get, latest, update, list", async () => {
    const { get, post } = storeRequests();
    expect(await get("/resources/latest")).toMatchObject({ status: 200, text: "null" });
    const text = `{"main_llm":{"resource_type":"llm","endpoint":"e","model":"m","sampling_parameters":{"temperature":1.0},"x":1}}`;
    const added = await post("/resources", text);
    expect(added.status).toBe(201);
    expect(added.text).toContain('"api_key":null,"sampling_parameters":{"temperature":1.0}}}');
    const named = await post("/resources/id%20with%20space", { main_llm: llm });
    expect(named).toMatchObject({ status: 200, body: { resources_id: "id with space", version: 1 } });
    expect((await get("/resources/latest")).body).toEqual(named.body);
    expect((await get("/resources/id%20with%20space")).body).toEqual(named.body);
    expect((await post("/resources/id%20with%20space", {})).body).toMatchObject({
      version: 2,
      resources: {},
    });
    expect((await post("/resources/search", {})).body.resources_id).toBe("search");
    expect((await post("/resources/latest", {})).body.resources_id).toBe("latest");
    expect((await get("/resources?resources_id=search")).body.total).toBe(1);
    expect((await get("/resources?resources_id_contains=t&limit=1")).body).toMatchObject({
      total: 2,
      limit: 1,
    });
    expect(await get("/resources/rs-x")).toMatchObject({ status: 200, text: "null" });
  });

  // section 3.14
  test.each([
    [{ a: { endpoint: "e", model: "m" } }],
    [{ a: { ...llm, resource_type: "gguf" } }],
    [{ a: { ...llm, model: 1 } }],
    [{ a: { resource_type: "prompt_template", template: "t" } }],
    [{ a: { resource_type: "prompt_template", template: "t", engine: "go" } }],
    [[]],
    ["null"],
  ])("%p is a 422", async (resources) => {
    expect((await storeRequests().post("/resources", resources)).status).toBe(422);
  });
});

describe("spans", () => {
  async function started() {
    const requests = storeRequests();
    const { rollout_id, attempt } = await requests.store.startRollout({ input: 1 });
    return { ...requests, ids: { rollout_id, attempt_id: attempt.attempt_id } };
  }

  // section 3.15, D-3, D-10, T-2, T-33, W-26
  test("a span is answered whole, its duplicate with null", async () => {
    const { post, ids } = await started();
    const span = {
      ...sampleSpan({ ...ids, kind: "CLIENT" }),
      status: { status_code: "ERROR", extra: 1 },
      events: [{ name: "e", attributes: {}, dropped: 2 }],
      links: [{ context: { trace_id: "t", span_id: "s", is_remote: true, trace_state: {}, flags: 1 } }],
      resource: { attributes: {}, schema_url: "", dropped: 1 },
    };
    const { status, body } = await post("/spans", span);
    expect(status).toBe(201);
    expect(body).toEqual({
      ...span,
      status: { status_code: "ERROR", description: null, extra: 1 },
      events: [{ name: "e", attributes: {}, timestamp: null, dropped: 2 }],
      links: [{ ...span.links[0], attributes: null }],
      resource: { attributes: {}, schema_url: "" },
    });
    expect(Object.keys(body).at(-1)).toBe("kind");
    expect(await post("/spans", span)).toMatchObject({ status: 201, text: "null" });
    expect((await post("/spans", { ...span, rollout_id: "ro-x" })).status).toBe(404);
  });

  // E-21
  test.each(Object.keys(sampleSpan({ rollout_id: "r", attempt_id: "a" })))(
    "%s is required",
    async (member) => {
      const { post, ids } = await started();
      const { [member]: _absent, ...span } = sampleSpan(ids);
      const { status, body } = await post("/spans", span);
      expect(status).toBe(422);
      expect(body.detail).toMatchObject([{ type: "missing", loc: ["body", member] }]);
    },
  );

  // D-9, W-12, T-31
  test.each([
    ['{"a":null}', null],
    ['{"a":{}}', null],
    ['{"a":[1,null]}', null],
    ['{"a":["x",1]}', null],
    ["[]", null],
    ['{"a":[],"b":["x"],"c":true}', '{"a":[],"b":["x"],"c":true}'],
    ['{"a":[1,2.5,3]}', '{"a":[1.0,2.5,3.0]}'],
    ['{"a":[true,2]}', '{"a":[1,2]}'],
    ['{"a":[1,2],"b":[true,false]}', '{"a":[1,2],"b":[true,false]}'],
    ['{"a":1.0,"b":12345678901234567890}', '{"a":1.0,"b":12345678901234567890}'],
    ['{"7":1,"3":[1,2.5]}', '{"7":1,"3":[1.0,2.5]}'],
    ['{"a":NaN,"b":[1.5,Infinity]}', '{"a":null,"b":[1.5,null]}'],
  ])("attributes %s become %p", async (attributes, stored) => {
    const { post, ids } = await started();
    const text = JSON.stringify(sampleSpan(ids)).replace('"attributes":{}', `"attributes":${attributes}`);
    const answer = await post("/spans", text);
    expect(answer.status).toBe(stored === null ? 422 : 201);
    if (stored === null) return;
    expect(answer.text).toContain(`"attributes":${stored},`);
    expect((await post("/spans/search", ids)).text).toContain(`"attributes":${stored},`);
  });

  // sections 3.16, 3.17, E-22
  test("search in both forms, and the next number", async () => {
    const { get, post, ids } = await started();
    await post("/spans", sampleSpan({ ...ids, sequence_id: -3, name: "b" }));
    await post("/spans", sampleSpan({ ...ids, sequence_id: 4, name: "ab" }));
    const query = `rollout_id=${ids.rollout_id}&attempt_id=latest&name_contains=b&trace_id_contains=zz`;
    const found = await get(`/spans?${query}&filter_logic=or&sort_by=name`);
    expect(found.body.items.map(({ name }: any) => name)).toEqual(["ab", "b"]);
    const same = {
      rollout_id: ids.rollout_id,
      attempt_id: "latest",
      name_contains: "b",
      trace_id_contains: "zz",
      filter_logic: "or",
      sort_by: "name",
    };
    expect((await post("/spans/search", same)).body).toEqual(found.body);
    expect((await get("/spans")).body.detail).toMatchObject([
      { type: "missing", loc: ["query", "rollout_id"] },
    ]);
    expect((await get("/spans?rollout_id=ro-x&limit=5")).body).toEqual({
      items: [],
      limit: 5,
      offset: 0,
      total: 0,
    });
    expect(await post("/spans/next", ids)).toMatchObject({ status: 200, body: { sequence_id: 5 } });
    expect((await post("/spans/next", { rollout_id: "r" })).status).toBe(422);
  });

  test("a batch stores what it can and names the rest", async () => {
    const { post, ids, store } = await started();
    const span = sampleSpan(ids);
    const { name: _name, ...nameless } = sampleSpan(ids);
    const foreign = sampleSpan({ ...ids, attempt_id: "at-x" });
    const answer = await post("/spans/batch", { spans: [span, 7, nameless, span, foreign, sampleSpan(ids)] });
    expect(answer.status).toBe(201);
    expect(answer.body).toMatchObject({ stored: 2, duplicates: 1 });
    expect(answer.body.rejected.map(({ index }: any) => index)).toEqual([1, 2, 4]);
    expect(answer.body.rejected[1].detail).toBe("name: Field required");
    expect(answer.body.rejected[2].detail).toContain("Attempt at-x not found");
    expect((await store.statistics()).total_spans).toBe(2);
    expect((await post("/spans/batch", {})).status).toBe(422);
  });
});

describe("workers", () => {
  // section 3.18, W-4, W-8
  test("heartbeats, look-ups and searches", async () => {
    const { get, post, send } = storeRequests();
    expect(await get("/workers/w")).toMatchObject({ status: 200, text: "null" });
    const text = '{"heartbeat_stats":{"cpu":1.0,"bad":NaN}}';
    expect((await post("/workers/w", text)).text).toContain('"heartbeat_stats":{"cpu":1.0,"bad":null}');
    const bare = await send("POST", "/v1/agl/workers/w", undefined, {
      "content-type": "application/octet-stream",
    });
    expect(bare.text).toContain('"heartbeat_stats":{"cpu":1.0,"bad":null}');
    expect(await post("/workers/w", { heartbeat_stats: null })).toMatchObject({
      status: 400,
      body: { detail: "heartbeat_stats is invalid; it cannot be a null value." },
    });
    expect((await post("/workers/w", { heartbeat_stats: [1] })).status).toBe(422);
    const page = await get("/workers?status_in=unknown&worker_id_contains=w&limit=5");
    expect(page.body).toMatchObject({ total: 1, items: [{ worker_id: "w", status: "unknown" }] });
    const same = { status_in: ["unknown"], worker_id_contains: "w", limit: 5 };
    expect((await post("/workers/search", same)).body).toEqual(page.body);
    expect(await get("/workers/search")).toMatchObject({ status: 200, text: "null" });
  });
});
