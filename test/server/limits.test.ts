import { expect, test } from "bun:test";
import { connect } from "node:net";
import { serveStore } from "../../src/server/serve.ts";
import { memoryStore } from "../helpers/memory-store.ts";
import { storeRequests } from "../helpers/store-requests.ts";
import { sampleSpan } from "../helpers/sample-span.ts";

const megabyte = 1_000_000;

// A pattern whose time grows with the square of such a text held the process for a minute.
test.each([
  ["digits that end in a letter", `"${"1".repeat(50_000)}x"`],
  ["spaces that end in a letter", `"${" ".repeat(megabyte)}x"`],
  ["a number without end", "1".repeat(megabyte)],
])("%s are no number, and that is known soon", async (_name, limit) => {
  const { send } = storeRequests();
  expect((await send("POST", "/v1/agl/rollouts/search", `{"limit":${limit}}`)).status).toBe(422);
});

test("a filter is a text and no pattern: what would hold a regular expression up is looked for letter by letter", async () => {
  const { post, store } = storeRequests();
  const rollout = await store.startRollout({ input: 1 });
  const ids = { rollout_id: rollout.rollout_id, attempt_id: rollout.attempt.attempt_id };
  const pattern = "(a+)+$";
  await store.addSpan(sampleSpan({ ...ids, name: `${"a".repeat(megabyte)}!` }));
  await store.addSpan(sampleSpan({ ...ids, name: `literally ${pattern}` }));
  const search = async (filter: string) =>
    (await post("/spans/search", { rollout_id: ids.rollout_id, name_contains: filter })).body.total;
  expect(await search(pattern)).toBe(1);
  expect(await search("a%a_")).toBe(0);
  expect(await search(`${"a".repeat(999)}!`)).toBe(1);
  expect(await search(`${"a".repeat(999)}?`)).toBe(0);
});

test.each([
  ["/spans/search", { rollout_id: "ro-1", name_contains: "a".repeat(1001) }, ["body", "name_contains"]],
  ["/rollouts/search", { rollout_id_in: Array(100_001).fill("a") }, ["body", "rollout_id_in"]],
  ["/waits/rollouts", { rollout_ids: Array(100_001).fill("a"), timeout: 0 }, ["body", "rollout_ids"]],
  ["/queues/rollouts/enqueue", { rollouts: Array(100_001).fill({ input: 1 }) }, ["body", "rollouts"]],
])("%s with more than it may hold is refused where the limit is", async (path, body, loc) => {
  const answer = await storeRequests().post(path, body);
  expect(answer.status).toBe(422);
  expect(answer.body.detail).toMatchObject([{ loc, msg: expect.stringContaining("should have at most") }]);
});

test("a query of more than 500 parameters is refused with the way around it", async () => {
  const { get } = storeRequests();
  const query = (count: number) => Array(count).fill("rollout_id_in=ro-1").join("&");
  expect((await get(`/rollouts?${query(500)}`)).status).toBe(200);
  const refused = await get(`/rollouts?${query(501)}`);
  expect(refused.status).toBe(400);
  expect(refused.body.detail).toBe(
    "The query has 501 parameters and may have 500: send longer lists as JSON to the search route",
  );
});

test.each(["address", "header"])("an endless %s is refused before it is read to its end", async (part) => {
  const server = serveStore({ store: memoryStore(), hostname: "127.0.0.1", port: 0 });
  try {
    const long = "a".repeat(64 * 1024);
    const socket = connect(server.port, "127.0.0.1");
    const answered = new Promise<string>((resolve) => {
      socket.once("data", (data) => resolve(data.toString()));
      socket.once("close", () => resolve("closed"));
      socket.on("error", () => {});
    });
    const [query, header] = part === "address" ? [`?x=${long}`, "a"] : ["", long];
    socket.write(`GET /v1/agl/health${query} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: ${header}\r\n\r\n`);
    expect(await answered).toMatch(/^HTTP\/1\.1 4|^closed/);
    socket.destroy();
    expect((await fetch(`${server.url}/v1/agl/health`)).status).toBe(200);
  } finally {
    await server.stop();
  }
});

// W-23
test("an idle connection is closed after its time, and one with a held answer is not", async () => {
  const server = serveStore({ store: memoryStore(), hostname: "127.0.0.1", port: 0, idleSeconds: 1 });
  try {
    const open = (text: string) => {
      const socket = connect(server.port, "127.0.0.1");
      let received = "";
      socket.on("data", (data) => (received += data));
      const closed = new Promise<string>((resolve) => socket.once("close", () => resolve(received)));
      socket.on("error", () => {});
      socket.write(text);
      return { socket, closed };
    };
    const body = '{"wait_seconds":6}';
    const held = open(
      `POST /v1/agl/queues/rollouts/dequeue HTTP/1.1\r\nHost: 127.0.0.1\r\ncontent-length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
    );
    const idle = open("POST /v1/agl/workers/w HTTP/1.1\r\nHost: 127.0.0.1\r\ncontent-length: 5\r\n\r\n");
    expect(await Promise.race([idle.closed.then(() => "idle"), held.closed.then(() => "held")])).toBe("idle");
    expect(await held.closed).toEndWith("\r\n\r\n[]");
  } finally {
    await server.stop();
  }
}, 30_000);
