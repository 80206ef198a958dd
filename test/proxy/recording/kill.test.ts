import { afterEach, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { connectStore, type HttpStore } from "../../../src/client/http-store.ts";
import { freePort } from "../../../src/engine/port-owner.ts";
import { type FakeVllm, replyAs, startFakeVllm } from "../../helpers/fake-vllm.ts";
import { until } from "../../helpers/processes.ts";
import { ProxyLoad, storedNames } from "../../helpers/proxy-load.ts";
import type { ServedProcess } from "../../helpers/served-process.ts";
import { startServedProxy } from "../../helpers/served-proxy.ts";
import { startServedStore } from "../../helpers/served-store.ts";
import { temporaryFolder } from "../../helpers/temporary-folder.ts";

const root = temporaryFolder();
let folders = 0;
const started: ServedProcess[] = [];
let vllm: FakeVllm | undefined;
let client: HttpStore | undefined;

afterEach(async () => {
  await client?.close();
  await Promise.all(started.splice(0).map((server) => server.end("SIGKILL")));
  await vllm?.stop();
});

async function startAll() {
  const folder = join(root, String(folders++));
  const port = freePort();
  const path = join(folder, "agl.db");
  const serveStore = () => keep(startServedStore(path, { port }));
  const store = await serveStore();
  vllm = startFakeVllm((request, index) =>
    replyAs(request, {
      id: `chatcmpl-${index}`,
      prompt_token_ids: [1],
      pieces: [{ text: "hi", token_ids: [2] }],
    }),
  );
  const engine = vllm.baseUrl;
  const serveProxy = () => keep(startServedProxy({ store: store.url, engine, cwd: folder }));
  client = connectStore(store.url);
  return { folder, store, serveStore, proxy: await serveProxy(), serveProxy, client };
}

async function keep(starting: Promise<ServedProcess>): Promise<ServedProcess> {
  const server = await starting;
  started.push(server);
  return server;
}

async function statistics(proxy: ServedProcess): Promise<Record<string, number>> {
  const response = await fetch(proxy.url.replace(/\/v1$/, "/statistics"));
  return (await response.json()) as Record<string, number>;
}

test("completed calls are recorded calls, each once and in order, when the proxy is stopped", async () => {
  const { proxy, client, folder } = await startAll();
  const load = new ProxyLoad(client, proxy.url);
  await load.run(8, 20);
  expect(await proxy.end("SIGTERM")).toBe(0);
  for (const { rolloutId, completed } of load.attempts) {
    expect(completed).toHaveLength(20);
    expect(await storedNames(client, rolloutId)).toEqual(completed);
  }
  expect(readdirSync(folder)).not.toContain("agl-spool");
});

test("a proxy killed in the middle of its work has lost nothing that a flush has acknowledged", async () => {
  const { proxy, client, serveProxy } = await startAll();
  let next = proxy;
  let acknowledgedCalls = 0;
  for (let round = 1; round <= 4; round += 1) {
    const load = new ProxyLoad(client, next.url);
    const running = load.run(8, 100_000);
    const afterMs = 50 + Math.random() * 300;
    await Promise.race([running, Bun.sleep(afterMs)]);
    await until("a flush", () => load.attempts.some(({ acknowledged }) => acknowledged.length > 0));
    load.expectEnd();
    await Promise.all([running, next.end("SIGKILL")]);
    for (const { rolloutId, acknowledged } of load.attempts) {
      const stored = new Set(await storedNames(client, rolloutId));
      const missing = acknowledged.filter((name) => !stored.has(name));
      expect({ round, afterMs, missing }).toEqual({ round, afterMs, missing: [] });
      acknowledgedCalls += acknowledged.length;
    }
    next = await serveProxy();
  }
  expect(acknowledgedCalls).toBeGreaterThan(0);
}, 30_000);

test.each([
  ["killed", "SIGKILL"],
  ["stopped", "SIGTERM"],
] as const)(
  "%s while the store is away, the proxy sends at its next start what it had on disk",
  async (_, signal) => {
    const { store, serveStore, proxy, serveProxy, client } = await startAll();
    const load = new ProxyLoad(client, proxy.url);
    await load.run(6, 3);
    await store.end("SIGKILL");
    await Promise.all(load.attempts.map((attempt) => load.again(attempt, 2)));
    await until("12 calls on disk", async () => {
      const { spooledCalls, waitingCalls, openCalls } = await statistics(proxy);
      return spooledCalls === 12 && waitingCalls === 0 && openCalls === 0;
    });
    await proxy.end(signal);
    await serveStore();
    const next = await serveProxy();
    await until("nothing on disk", async () => (await statistics(next)).spooledCalls === 0);
    for (const { rolloutId, completed } of load.attempts) {
      expect(completed).toHaveLength(5);
      expect(await storedNames(client, rolloutId)).toEqual(completed);
    }
  },
  30_000,
);
