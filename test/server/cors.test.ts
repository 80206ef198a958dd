import { describe, expect, test } from "bun:test";
import { storeRequests } from "../helpers/store-requests.ts";

const page = "http://localhost:3000";
const storeFor = (...corsOrigins: string[]) => storeRequests({ access: { corsOrigins } });
const preflight = (origin: string) => ({
  origin,
  "access-control-request-method": "POST",
  "access-control-request-headers": "content-type, authorization",
});

describe("CORS", () => {
  // C-6
  test("is off unless an origin is given", async () => {
    const { send } = storeRequests();
    const answer = await send("GET", "/v1/agl/health", undefined, { origin: page });
    expect(answer.status).toBe(200);
    expect([...answer.headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
    expect((await send("OPTIONS", "/v1/agl/health", undefined, preflight(page))).status).toBe(405);
  });

  // C-7
  test("a given origin may read answers, refusals and failures too", async () => {
    const { send } = storeFor("https://other.example", page);
    for (const [path, status] of [
      ["/v1/agl/health", 200],
      ["/v1/agl/nothing", 404],
      ["/v1/agl/rollouts?limit=0", 400],
    ] as const) {
      const answer = await send("GET", path, undefined, { origin: page });
      expect(answer.status).toBe(status);
      expect(answer.headers.get("access-control-allow-origin")).toBe(page);
      expect(answer.headers.get("access-control-allow-credentials")).toBe("true");
      expect(answer.headers.get("access-control-expose-headers")).toBe("*");
      expect(answer.headers.get("vary")).toContain("Origin");
    }
  });

  // C-8, T-45
  test("another origin is served without it, and its preflight is refused", async () => {
    const { send } = storeFor(page);
    for (const origin of ["http://localhost:3001", `${page}.evil.example`, "null"]) {
      const answer = await send("GET", "/v1/agl/health", undefined, { origin });
      expect(answer.status).toBe(200);
      expect(answer.headers.get("access-control-allow-origin")).toBeNull();
      expect((await send("OPTIONS", "/v1/agl/health", undefined, preflight(origin))).status).toBe(400);
    }
  });

  // C-9
  test("with * every origin is given", async () => {
    const answer = await storeFor("*").send("GET", "/v1/agl/health", undefined, {
      origin: "https://any.example",
    });
    expect(answer.headers.get("access-control-allow-origin")).toBe("https://any.example");
  });

  // C-10
  test("a preflight is told what may be sent, without showing the token", async () => {
    const { send } = storeRequests({ access: { corsOrigins: [page], token: "a-token-of-this-test" } });
    const answer = await send("OPTIONS", "/v1/agl/rollouts/search", undefined, preflight(page));
    expect(answer.status).toBe(200);
    expect(answer.headers.get("access-control-allow-origin")).toBe(page);
    expect(answer.headers.get("access-control-allow-methods")).toContain("POST");
    expect(answer.headers.get("access-control-allow-headers")).toBe("content-type, authorization");
    expect(answer.headers.get("access-control-max-age")).toBe("600");
    const real = await send("GET", "/v1/agl/health", undefined, { origin: page });
    expect(real.status).toBe(401);
    expect(real.headers.get("access-control-allow-origin")).toBe(page);
  });
});
