import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { connectStore, type HttpStore } from "../../src/client/http-store.ts";
import { freePort } from "../../src/engine/port-owner.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";
import { type AglProcess, startAgl } from "./agl-process.ts";

/** The compiled proxy under many streams, with a store that writes to disk. */
const minute = 60_000;
const folder = temporaryFolder();
const running: AglProcess[] = [];
const storeUrl = `http://127.0.0.1:${freePort()}`;
const proxyUrl = `http://127.0.0.1:${freePort()}`;
let store: HttpStore;
let proxy: AglProcess;

function start(name: string, args: string[], program?: string[]): AglProcess {
  const cwd = join(folder, name);
  mkdirSync(cwd, { recursive: true });
  const started = startAgl(args, cwd, {}, program);
  running.push(started);
  return started;
}

const portOf = (url: string) => new URL(url).port;

beforeAll(async () => {
  start("store", ["store", "--store-port", portOf(storeUrl)]);
  const server = start("server", [join(import.meta.dir, "stream-server.ts")], [process.execPath]);
  const engineUrl = await server.waitForLine(/^http/, minute);
  proxy = start("proxy", [
    "proxy",
    "--engine-url",
    engineUrl,
    "--model-name",
    "agent-model",
    "--store-url",
    storeUrl,
    "--proxy-port",
    portOf(proxyUrl),
  ]);
  await proxy.waitForLine(/^proxy: /, minute);
  store = connectStore(storeUrl);
}, 2 * minute);

afterAll(async () => {
  await store.close();
  for (const each of running.toReversed()) each.signal("SIGTERM");
  await Promise.all(running.map((each) => each.exited));
});

interface Counts {
  completed: number;
  left: number;
  failed: number;
  peak: number;
}

async function newAttempt(): Promise<string> {
  const { rollout_id, attempt } = await store.startRollout({ input: {} });
  return `${proxyUrl}/rollout/${rollout_id}/attempt/${attempt.attempt_id}/v1`;
}

async function run(baseUrl: string, streams: number, concurrency: number): Promise<Counts> {
  const script = join(import.meta.dir, "stream-client.ts");
  const client = Bun.spawn([process.execPath, script, baseUrl, String(streams), String(concurrency)], {
    env: { ...process.env, BUN_CONFIG_MAX_HTTP_REQUESTS: "5000" },
    stdout: "pipe",
    stderr: "inherit",
  });
  const counts = JSON.parse(await new Response(client.stdout).text()) as Counts;
  expect(await client.exited).toBe(0);
  const flushed = await fetch(baseUrl.replace(/v1$/, "flush"), { method: "POST" });
  expect(flushed.status).toBe(204);
  return counts;
}

async function recordedCalls(baseUrl: string): Promise<number> {
  const rolloutId = new URL(baseUrl).pathname.split("/")[2] as string;
  const page = await store.querySpans({ rollout_id: rolloutId, name: "litellm_request", limit: 1 });
  return page.total;
}

function residentMegabytes(): number {
  const status = readFileSync(`/proc/${proxy.pid}/status`, "utf8");
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024;
}

test(
  "1,000 streams at once: every one is whole or left by its agent, and recorded",
  async () => {
    const baseUrl = await newAttempt();
    const counts = await run(baseUrl, 4_000, 1_000);
    expect(counts).toMatchObject({ completed: 2_000, left: 2_000, failed: 0 });
    // Bun alone would send 256 at a time.
    expect(counts.peak).toBeGreaterThan(256);
    expect(await recordedCalls(baseUrl)).toBe(4_000);
  },
  5 * minute,
);

// O15
test(
  "20,000 streams, half of them left by their agents: memory stays as it was after the first 2,000",
  async () => {
    const baseUrl = await newAttempt();
    await run(baseUrl, 2_000, 64);
    const before = residentMegabytes();
    const counts = await run(baseUrl, 18_000, 64);
    const after = residentMegabytes();
    expect(counts).toMatchObject({ completed: 9_000, left: 9_000, failed: 0 });
    expect(await recordedCalls(baseUrl)).toBe(20_000);
    console.log(
      `resident memory of the proxy: ${before.toFixed(0)} MB after 2,000 streams, ${after.toFixed(0)} MB after 20,000`,
    );
    expect(after).toBeLessThan(before * 1.25 + 32);
  },
  10 * minute,
);

// O15
test(
  "an agent that reads 1 kB/s of a 50 MB answer does not make the proxy hold it",
  async () => {
    const baseUrl = await newAttempt();
    const before = residentMegabytes();
    const controller = new AbortController();
    const response = await fetch(`${baseUrl}/chat/completions`, {
      method: "POST",
      body: JSON.stringify({ model: "agent-model", stream: true, user: "large", messages: [] }),
      signal: controller.signal,
    });
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    for (let second = 0; second < 5; second += 1) {
      await reader.read();
      await Bun.sleep(1_000);
    }
    const after = residentMegabytes();
    controller.abort();
    expect(after - before).toBeLessThan(25);
  },
  minute,
);

// O11
test(
  "a server that is silent for 12 s before the first byte, and for 15 s between two, is waited for",
  async () => {
    const baseUrl = await newAttempt();
    const response = await fetch(`${baseUrl}/chat/completions`, {
      method: "POST",
      body: JSON.stringify({ model: "agent-model", stream: true, user: "slow", max_tokens: 5, messages: [] }),
    });
    const text = await response.text();
    expect(text.match(/word /g)).toHaveLength(5);
    expect(text).toEndWith("data: [DONE]\n\n");
    await fetch(baseUrl.replace(/v1$/, "flush"), { method: "POST" });
    expect(await recordedCalls(baseUrl)).toBe(1);
  },
  minute,
);
