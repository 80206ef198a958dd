import { afterEach, describe, expect, test } from "bun:test";
import { connectStore } from "../../src/client/http-store.ts";
import type { HttpStoreOptions } from "../../src/client/http-store.ts";
import { refuseOtherStore } from "../../src/client/other-store.ts";
import { storeAddress } from "../../src/client/store-address.ts";
import { AglError } from "../../src/errors.ts";
import { silentLogger } from "../../src/log.ts";
import { untilReachable } from "../../src/runner/store-readiness.ts";
import { serveStore } from "../../src/server/serve.ts";
import { memoryStore } from "../helpers/memory-store.ts";

const token = "only-for-this-test-0123456789";
const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

function serve(options: { port?: number; token?: string } = {}) {
  const store = memoryStore();
  const server = serveStore({ store, hostname: "127.0.0.1", port: 0, ...options });
  closers.push(() => server.stop());
  return { store, server };
}

function connect(url: string, options: HttpStoreOptions = {}) {
  const client = connectStore(url, { retryDelaysMs: [1, 2, 5], ...options });
  closers.push(() => client.close());
  return client;
}

describe("a store that wants a token", () => {
  test("takes it from the address or beside it, and neither shows it", async () => {
    const { server } = serve({ token });
    const { url, authorization } = storeAddress(server.url, token);
    const ways = [connect(`${server.url}/t/${token}`), connect(url, { authorization })];
    for (const client of ways) {
      expect(client.url).toBe(server.url);
      expect((await client.health()).ok).toBe(true);
      expect(await client.enqueueRollouts([{ input: 1 }])).toHaveLength(1);
    }
  });

  test("that is missing or wrong is not waited for: the reason comes at once, with what to do", async () => {
    const { server } = serve({ token });
    const wait = (url: string) => {
      const client = connect(url);
      return untilReachable(() => client.health(), client.url, { limitSeconds: 20 });
    };
    await expect(wait(server.url)).rejects.toThrow(`the store at ${server.url} asks for a token`);
    const wrong = `wrong-${token}`;
    const refusal = await wait(`${server.url}/t/${wrong}`).catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(AglError);
    const { message, remedy } = refusal as AglError;
    expect(message).toBe(`the store at ${server.url} refuses the token that it was sent`);
    expect(remedy).toContain("AGL_TOKEN");
    expect(message + remedy).not.toContain(wrong);
  });

  test("refuses calls with the same words, without a second try", async () => {
    const { server } = serve({ token });
    const warnings: string[] = [];
    const log = { ...silentLogger, warning: (line: string) => void warnings.push(line) };
    const client = connect(server.url, { log });
    await expect(client.statistics()).rejects.toThrow("asks for a token");
    expect(warnings).toEqual([]);
  });

  test("that cannot be reached is named without its token", async () => {
    const { server } = serve();
    await server.stop();
    const client = connect(`${server.url}/t/${token}`, { retryDelaysMs: [] });
    const error = await client.statistics().catch((error: unknown) => error);
    expect((error as Error).message).toContain(`the store at ${server.url} did not answer`);
    expect(Bun.inspect(error)).not.toContain(token);
  });
});

describe("another store at the same address", () => {
  async function replaced(options: HttpStoreOptions) {
    const first = serve();
    const client = connect(first.server.url, options);
    await client.statistics();
    await first.server.stop();
    const second = serve({ port: first.server.port });
    return { client, url: first.server.url, before: first.store.storeId, now: second.store.storeId };
  }

  test("is told once, and then worked with", async () => {
    const changes: unknown[] = [];
    const { client, ...ids } = await replaced({ onOtherStore: (change) => void changes.push(change) });
    await client.statistics();
    await client.statistics();
    expect(changes).toEqual([ids]);
  });

  test("is noticed in a refusal, too", async () => {
    const changes: unknown[] = [];
    const { client } = await replaced({ onOtherStore: (change) => void changes.push(change) });
    await expect(client.updateRollout("ro-of-the-first", { status: "failed" })).rejects.toThrow("not found");
    expect(changes).toHaveLength(1);
  });

  test("is never taken for the first by those who say so", async () => {
    const { client, before, now } = await replaced({ onOtherStore: refuseOtherStore });
    for (let time = 0; time < 2; time++) {
      const error = await client
        .waitForRollouts({ rollout_ids: ["ro-of-the-first"] })
        .catch((error: unknown) => error);
      expect(error).toBeInstanceOf(AglError);
      expect((error as AglError).message).toContain(
        `is another one than before (${before} then, ${now} now)`,
      );
    }
  });

  test("is a warning where nobody asked", async () => {
    const warnings: string[] = [];
    const log = { ...silentLogger, warning: (line: string) => void warnings.push(line) };
    const { client } = await replaced({ log });
    await client.statistics();
    expect(warnings.at(-1)).toContain("is another one than before");
  });

  test("the same store after a restart is the same", async () => {
    const changes: unknown[] = [];
    const { store, server } = serve();
    const client = connect(server.url, { onOtherStore: (change) => void changes.push(change) });
    await client.statistics();
    await server.stop();
    const again = serveStore({ store, hostname: "127.0.0.1", port: server.port });
    closers.push(() => again.stop());
    await client.statistics();
    expect(changes).toEqual([]);
  });
});
