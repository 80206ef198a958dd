import { describe, expect, test } from "bun:test";
import { sampleSpan } from "../helpers/sample-span.ts";
import { storeRequests } from "../helpers/store-requests.ts";

const emptyPage = { items: [], limit: -1, offset: 0, total: 0 };

// W-18, section 11
describe("reading what does not exist is no error", () => {
  test.each([
    ["/rollouts/ro-x", null],
    ["/rollouts/ro-x/attempts", emptyPage],
    ["/rollouts/ro-x/attempts/latest", null],
    ["/resources/rs-x", null],
    ["/resources/latest", null],
    ["/workers/w-x", null],
    ["/spans?rollout_id=ro-x", emptyPage],
    ["/spans?rollout_id=ro-x&attempt_id=at-x", emptyPage],
    ["/spans?rollout_id=ro-x&attempt_id=latest", emptyPage],
  ])("GET %s", async (path, answer) => {
    expect(await storeRequests().get(path)).toMatchObject({ status: 200, body: answer });
  });

  test.each([
    ["/rollouts/ro-x/attempts/search", {}, emptyPage],
    ["/spans/search", { rollout_id: "ro-x", attempt_id: "latest" }, emptyPage],
    ["/waits/rollouts", { rollout_ids: ["ro-x"], timeout: null }, []],
    ["/spans/next", { rollout_id: "ro-x", attempt_id: "at-x" }, { sequence_id: 1 }],
  ])("POST %s", async (path, body, answer) => {
    expect(await storeRequests().post(path, body)).toMatchObject({ status: 200, body: answer });
  });
});

// W-18, T-40: Python's client repeats a 5xx for eight seconds, a 404 not at all.
describe("writing to what does not exist is a 404 in words", () => {
  test.each([
    ["/rollouts/ro-x", { mode: "val" }, "Rollout ro-x not found"],
    ["/rollouts/ro-x/attempts", {}, "Rollout ro-x not found"],
    ["/rollouts/ro-x/attempts/at-x", { status: "failed" }, "Rollout ro-x not found"],
    ["/rollouts/ro-x/attempts/latest", { status: "failed" }, "Rollout ro-x not found"],
    ["/spans", sampleSpan({ rollout_id: "ro-x", attempt_id: "at-x" }), "Rollout ro-x not found"],
  ])("POST %s", async (path, body, detail) => {
    const answer = await storeRequests().post(path, body);
    expect(answer).toMatchObject({ status: 404, body: { detail } });
    expect(answer.headers.get("content-type")).toStartWith("application/json");
  });

  test("the attempt of a rollout that has none, or another", async () => {
    const { post, store } = storeRequests();
    const [rollout] = await store.enqueueRollouts([{ input: 1 }]);
    const path = `/rollouts/${rollout!.rollout_id}/attempts`;
    for (const attempt of ["latest", "at-x"]) {
      expect((await post(`${path}/${attempt}`, {})).body.detail).toEndWith("has no attempts");
    }
    await store.startAttempt(rollout!.rollout_id);
    expect(await post(`${path}/at-x`, {})).toMatchObject({
      status: 404,
      body: { detail: `Attempt at-x not found in rollout ${rollout!.rollout_id}` },
    });
    const span = sampleSpan({ rollout_id: rollout!.rollout_id, attempt_id: "at-x" });
    expect((await post("/spans", span)).status).toBe(404);
  });

  test("but resources and workers come into being", async () => {
    const { post } = storeRequests();
    expect(await post("/resources/rs-x", {})).toMatchObject({ status: 200, body: { version: 1 } });
    expect(await post("/workers/w-x", {})).toMatchObject({ status: 200, body: { status: "unknown" } });
  });
});

// W-3
describe("ids in paths", () => {
  test.each([
    ["id%20with%20space", "id with space"],
    ["gr%C3%B6%C3%9Fe", "größe"],
    ["a+b", "a+b"],
    ["100%", "100%"],
    ["50%25", "50%"],
    ["a%2Fb", "a/b"],
  ])("%s is %p", async (segment, id) => {
    const { get, post } = storeRequests();
    expect((await post(`/resources/${segment}`, {})).body.resources_id).toBe(id);
    expect((await get(`/resources/${segment}`)).body.resources_id).toBe(id);
    expect((await post(`/workers/${segment}`)).body.worker_id).toBe(id);
  });

  test("one with a plain slash names no endpoint", async () => {
    const { get, post } = storeRequests();
    expect((await get("/resources/a/b")).status).toBe(404);
    expect((await post("/workers/a/b")).status).toBe(404);
  });
});

// W-4, T-35
describe("literal segments", () => {
  test.each(["rollouts/search", "spans/search", "workers/search"])("POST %s searches", async (path) => {
    expect((await storeRequests().post(`/${path}`, { rollout_id: "ro-x" })).body).toEqual(emptyPage);
  });

  test("attempts: search and latest are no attempt ids, except that latest can be updated", async () => {
    const { get, post, store } = storeRequests();
    const { rollout_id, attempt } = await store.startRollout({ input: 1 });
    const path = `/rollouts/${rollout_id}/attempts`;
    expect((await post(`${path}/search`, {})).body.items).toEqual([attempt]);
    expect((await get(`${path}/latest`)).body).toEqual(attempt);
    const updated = await post(`${path}/latest`, { worker_id: "w" });
    expect(updated.body).toEqual({ ...attempt, worker_id: "w" });
    expect((await get(`${path}/search`)).status).toBe(405);
  });

  test("resources and workers may have such names", async () => {
    const { get, post } = storeRequests();
    for (const name of ["latest", "search"]) {
      expect((await post(`/resources/${name}`, {})).body.resources_id).toBe(name);
    }
    expect((await get("/resources/search")).body.resources_id).toBe("search");
    expect((await get("/resources/latest")).body.resources_id).toBe("search");
    expect((await get("/workers/search")).text).toBe("null");
  });
});
