import { readFileSync } from "node:fs";
import { describe, expect, test } from "bun:test";
import { sampleSpan } from "../helpers/sample-span.ts";
import { storeRequests } from "../helpers/store-requests.ts";

/** A store that holds one of everything, under ids that the paths below name. */
async function filled() {
  const requests = storeRequests();
  const { rollout_id, attempt } = await requests.store.startRollout({ input: 1, worker_id: "w" });
  const ids = { rollout_id, attempt_id: attempt.attempt_id };
  await requests.store.updateResources("rs", {});
  await requests.store.addSpan(sampleSpan(ids));
  const path = (pattern: string) =>
    pattern.replace("{rollout_id}", ids.rollout_id).replace("{attempt_id}", ids.attempt_id);
  return { ...requests, ids, path };
}

type Ids = { rollout_id: string; attempt_id: string };
type Endpoint = [method: string, path: string, status: number, body?: (ids: Ids) => unknown];

const endpoints: Endpoint[] = [
  ["GET", "/health", 200],
  ["GET", "/statistics", 200],
  ["POST", "/queues/rollouts/enqueue", 201, () => ({ rollouts: [{ input: 1 }] })],
  ["POST", "/queues/rollouts/dequeue", 200],
  ["POST", "/rollouts", 201, () => ({ input: 1 })],
  ["GET", "/rollouts", 200],
  ["POST", "/rollouts/search", 200, () => ({})],
  ["GET", "/rollouts/{rollout_id}", 200],
  ["POST", "/rollouts/{rollout_id}", 200, () => ({})],
  ["POST", "/rollouts/{rollout_id}/attempts", 201],
  ["GET", "/rollouts/{rollout_id}/attempts", 200],
  ["POST", "/rollouts/{rollout_id}/attempts/search", 200, () => ({})],
  ["GET", "/rollouts/{rollout_id}/attempts/latest", 200],
  ["POST", "/rollouts/{rollout_id}/attempts/{attempt_id}", 200, () => ({})],
  ["POST", "/waits/rollouts", 200, () => ({ rollout_ids: [] })],
  ["GET", "/resources", 200],
  ["POST", "/resources", 201, () => ({})],
  ["GET", "/resources/latest", 200],
  ["GET", "/resources/{resources_id}", 200],
  ["POST", "/resources/{resources_id}", 200, () => ({})],
  ["POST", "/spans", 201, sampleSpan],
  ["GET", "/spans", 200],
  ["POST", "/spans/search", 200, ({ rollout_id }) => ({ rollout_id })],
  ["POST", "/spans/next", 200, (ids) => ids],
  ["GET", "/workers", 200],
  ["POST", "/workers/search", 200, () => ({})],
  ["GET", "/workers/{worker_id}", 200],
  ["POST", "/workers/{worker_id}", 200],
];

// section 2
test("every endpoint of the protocol's index is tried below", () => {
  const document = readFileSync(new URL("../spec/store-api.md", import.meta.url), "utf8");
  const index = [...document.matchAll(/^\| \d+ +\| `(GET|POST) (\/[^`]*)` .*? (\d{3}) [^|]*\|$/gm)];
  const listed = index.map(([, method, path, status]) => [method, path, Number(status)]);
  expect(listed.slice(0, 28)).toEqual(endpoints.map(([method, path, status]) => [method, path, status]));
});

describe.each(endpoints)("%s %s", (method, pattern, status, bodyOf) => {
  // W-1, W-10, W-14 to W-17: with the headers of Python's client
  test(`answers ${status} with JSON that is not compressed`, async () => {
    const { send, ids, path } = await filled();
    const query = pattern === "/spans" && method === "GET" ? `?rollout_id=${ids.rollout_id}` : "";
    const answer = await send(method, `/v1/agl${path(pattern)}${query}`, bodyOf?.(ids), {
      accept: "*/*",
      "accept-encoding": "gzip, deflate, br, zstd",
      "user-agent": "Python/3.12 aiohttp/3.14",
    });
    expect(answer.status).toBe(status);
    expect(answer.headers.get("content-type")).toStartWith("application/json");
    expect(answer.headers.get("content-encoding")).toBeNull();
    expect(answer.body).toBeDefined();
    expect(await send(method, `/v1${path(pattern)}`, bodyOf?.(ids))).toMatchObject({ status: 404 });
  });

  if (method === "GET") return;

  if (bodyOf === undefined) {
    // W-8, T-4, E-5
    test.each([undefined, "", "null", "{}"])("takes the body %p", async (body) => {
      const { send, path } = await filled();
      const type = { "content-type": "application/octet-stream" };
      expect((await send(method, `/v1/agl${path(pattern)}`, body, type)).status).toBe(status);
    });
    return;
  }

  // W-9
  test("says that its body is missing", async () => {
    const { send, path } = await filled();
    const answer = await send(method, `/v1/agl${path(pattern)}`);
    expect(answer.status).toBe(422);
    const missing = { type: "missing", loc: ["body"], msg: "Field required", input: null };
    expect(answer.body).toEqual({ detail: [missing] });
  });

  // W-7
  test("takes JSON whatever its content type", async () => {
    const { send, ids, path } = await filled();
    const type = { "content-type": "text/plain" };
    expect((await send(method, `/v1/agl${path(pattern)}`, bodyOf(ids), type)).status).toBe(status);
  });

  // E-9, section 3.14
  test.each(["[]", "1", '"x"', "true"])("refuses %s", async (text) => {
    const { send, path } = await filled();
    const answer = await send(method, `/v1/agl${path(pattern)}`, text);
    expect(answer.status).toBe(422);
    expect(answer.body.detail).toMatchObject([{ loc: ["body"], msg: "Input should be a valid object" }]);
  });
});

// W-17
test("an answer of many bytes is not compressed either, whatever the client takes", async () => {
  const { send, post } = storeRequests();
  const input = "x".repeat(100_000);
  await post("/queues/rollouts/enqueue", { rollouts: [{ input }] });
  const answer = await send("GET", "/v1/agl/rollouts", undefined, { "accept-encoding": "gzip, deflate, br" });
  expect(answer.headers.get("content-encoding")).toBeNull();
  expect(answer.body.items[0].input).toBe(input);
});

// W-15, T-2, T-34
test("a duplicate span is answered with 201 and null", async () => {
  const { post, ids } = await filled();
  const span = sampleSpan(ids);
  await post("/spans", span);
  expect(await post("/spans", span)).toMatchObject({ status: 201, text: "null", body: null });
});

// W-16, sections 4.5 to 4.10
test("members without a value are null, and all are there in upstream's order", async () => {
  const { get, post, ids } = await filled();
  const members = (object: object) => Object.keys(object).join();
  const [queued] = (await post("/queues/rollouts/enqueue", { rollouts: [{ input: 1 }] })).body;
  const rollout = "rollout_id,input,start_time,end_time,mode,resources_id,status,config,metadata";
  expect(members(queued)).toBe(rollout);
  expect(members(queued.config)).toBe("timeout_seconds,unresponsive_seconds,max_attempts,retry_condition");
  const started = (await post("/rollouts", { input: 1 })).body;
  expect(members(started)).toBe(`${rollout},attempt`);
  expect(members(started.attempt)).toBe(
    "rollout_id,attempt_id,sequence_id,start_time,end_time,status,worker_id,last_heartbeat_time,metadata",
  );
  expect(started.attempt).toMatchObject({ end_time: null, worker_id: null, metadata: null });
  expect(members((await post("/workers/new")).body)).toBe(
    "worker_id,status,heartbeat_stats,last_heartbeat_time,last_dequeue_time,last_busy_time,last_idle_time," +
      "current_rollout_id,current_attempt_id",
  );
  expect(members((await post("/resources", {})).body)).toBe(
    "resources_id,create_time,update_time,version,resources",
  );
  const backwards = Object.fromEntries(Object.entries(sampleSpan(ids)).reverse());
  expect(members((await post("/spans", backwards)).body)).toBe(
    "rollout_id,attempt_id,sequence_id,trace_id,span_id,parent_id,name,status,attributes,events,links," +
      "start_time,end_time,context,parent,resource",
  );
  expect(members((await get("/workers")).body)).toBe("items,limit,offset,total");
});
