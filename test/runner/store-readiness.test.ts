import { expect, test } from "bun:test";
import { connectStore } from "../../src/client/http-store.ts";
import { untilReachable } from "../../src/runner/store-readiness.ts";

const answers: [string, () => Response, string][] = [
  [
    "another server",
    () => Response.json({ detail: "Not Found" }, { status: 404 }),
    "GET /v1/agl/health was answered with 404",
  ],
  [
    "a page for everything",
    () => new Response("<html></html>"),
    "GET /v1/agl/health was answered with 200 and no store's JSON",
  ],
];
test.each(answers)("who waits for a store is told what is there instead: %s", async (_, answer, instead) => {
  using server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: answer });
  const url = `http://127.0.0.1:${server.port}`;
  const store = connectStore(url);
  const said: string[] = [];
  try {
    const waiting = untilReachable(() => store.health(), url, {
      limitSeconds: 0.1,
      say: (line) => said.push(line),
    });
    const failure = await waiting.catch((error: unknown) => error);
    expect(failure).toMatchObject({ message: `no store answers at ${url} (waited 0.1 s): ${instead}` });
    expect(said).toEqual([`waiting: no store answers at ${url} yet: ${instead}`]);
  } finally {
    await store.close();
  }
});
