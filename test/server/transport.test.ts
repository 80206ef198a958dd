import { describe, expect, test } from "bun:test";
import { AglError } from "../../src/errors.ts";
import { createStoreApp } from "../../src/server/store-app.ts";
import { memoryStore } from "../helpers/memory-store.ts";
import { storeRequests } from "../helpers/store-requests.ts";

describe("paths and methods", () => {
  // W-6
  test.each([
    ["GET", "/v1/agl/nothing", 404, null],
    ["GET", "/v1/nothing", 404, null],
    ["POST", "/v1/agl/health", 405, "GET"],
    ["GET", "/v1/agl/queues/rollouts/dequeue", 405, "POST"],
    ["DELETE", "/v1/agl/rollouts/ro-1", 405, "GET, POST"],
    ["PUT", "/v1/agl/rollouts/search", 405, "GET, POST"],
    ["HEAD", "/v1/agl/health", 405, "GET"],
    ["OPTIONS", "/v1/agl/rollouts", 405, "GET, POST"],
  ])("%s %s is a %d", async (method, path, status, allow) => {
    const answer = await storeRequests().send(method, path);
    expect(answer.status).toBe(status);
    expect(answer.headers.get("allow")).toBe(allow);
    if (method !== "HEAD")
      expect(answer.body).toEqual({ detail: status === 404 ? "Not Found" : "Method Not Allowed" });
  });

  // C-3: also for browsers, which get a page elsewhere
  test("an unknown path under /v1/ stays a 404 in JSON", async () => {
    for (const path of ["/v1/agl/rollouts/ro-1/nothing", "/v1/assets/x.js", "/v1/agl"]) {
      const answer = await storeRequests().send("GET", path, undefined, { accept: "text/html" });
      expect(answer).toMatchObject({ status: 404, body: { detail: "Not Found" } });
    }
  });

  // W-5
  test("a trailing slash leads to the path without it", async () => {
    const answer = await storeRequests().get("/rollouts/?limit=1");
    expect(answer.status).toBe(307);
    expect(answer.headers.get("location")).toBe("/v1/agl/rollouts?limit=1");
  });

  // O-8
  test("telemetry that is not stored is refused", async () => {
    const { send } = storeRequests();
    for (const path of ["/v1/metrics", "/v1/logs", "/v1/development/profiles"]) {
      expect(await send("POST", path, "x")).toMatchObject({ status: 501, text: "" });
    }
  });
});

describe("bodies", () => {
  test.each([
    ["cut off", '{"rollouts":['],
    ["not UTF-8", new Uint8Array([0x7b, 0xff, 0x7d])],
    ["nested without end", "[".repeat(200_000)],
  ])("%s: 422", async (_name, body) => {
    const app = createStoreApp(memoryStore());
    const answer = await app.request("/v1/agl/queues/rollouts/enqueue", { method: "POST", body });
    expect(answer.status).toBe(422);
    expect(await answer.json()).toMatchObject({ detail: [{ type: "json_invalid", loc: ["body", 0] }] });
  });

  test("a value nested too deeply to be written: 422", async () => {
    const input = "[".repeat(300_000) + "]".repeat(300_000);
    const { send } = storeRequests();
    const answer = await send("POST", "/v1/agl/queues/rollouts/enqueue", `{"rollouts":[{"input":${input}}]}`);
    expect(answer.status).toBe(422);
  });

  test("larger than the limit: 413, with and without a stated length", async () => {
    const { send } = storeRequests({ maxBodyBytes: 1000 });
    const path = "/v1/agl/queues/rollouts/enqueue";
    const body = JSON.stringify({ rollouts: [{ input: "x".repeat(1000) }] });
    const refused = await send("POST", path, body);
    expect(refused.status).toBe(413);
    expect(refused.body.detail).toContain("1000 bytes");
    expect((await send("POST", path, body, { "content-length": "5000" })).status).toBe(413);
    expect((await send("POST", path, { rollouts: [{ input: "x" }] })).status).toBe(201);
  });
});

describe("failures", () => {
  // section 11: never expose internals
  test("a defect answers 500 without its trace, a busy store 503", async () => {
    const store = memoryStore();
    const failing = (error: Error) =>
      createStoreApp({ ...store, statistics: () => Promise.reject(error) } as typeof store);
    const defect = await failing(new TypeError("secret")).request("/v1/agl/statistics");
    expect(defect.status).toBe(500);
    expect(await defect.json()).toEqual({ detail: "Internal server error" });
    const busy = await failing(new AglError("store", "try again later")).request("/v1/agl/statistics");
    expect(busy.status).toBe(503);
    expect(await busy.json()).toEqual({ detail: "try again later" });
  });
});
