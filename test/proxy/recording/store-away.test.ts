import { afterEach, describe, expect, test } from "bun:test";
import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { adaptProxySpans } from "../../../src/adapter/proxy-adapter.ts";
import type { ProxyOptions } from "../../../src/proxy/proxy.ts";
import type { Attempt } from "../../../src/protocol/types.ts";
import { replyAs } from "../../helpers/fake-vllm.ts";
import { type ProxyFixture, startProxyFixture } from "../../helpers/proxy-fixture.ts";
import { until } from "../../helpers/processes.ts";
import { temporaryFolder } from "../../helpers/temporary-folder.ts";

const root = temporaryFolder();
let folders = 0;
const newFolder = () => join(root, String(folders++));
const away = new Error("ECONNREFUSED");

let fixture: ProxyFixture;
afterEach(() => fixture.stop());

function start(folder: string, options: Partial<ProxyOptions> & { maxBytes?: number } = {}): ProxyFixture {
  const { maxBytes = 1e9, ...others } = options;
  fixture = startProxyFixture(
    (request, index) =>
      replyAs(request, {
        id: `chatcmpl-${index}`,
        prompt_token_ids: [1],
        pieces: [{ text: `${index}`, token_ids: [10 + index] }],
      }),
    { spool: { folder, store: "http://s:1", maxBytes }, ...others },
  );
  return fixture;
}

async function call({ post }: ProxyFixture): Promise<number> {
  const response = await post({});
  await response.text();
  return response.status;
}

const onDisk = async ({ proxy }: ProxyFixture, calls: number) =>
  await until(`${calls} calls on disk`, () => {
    const { spooledCalls, waitingCalls } = proxy.statistics();
    return spooledCalls === calls && waitingCalls === 0;
  });

/** The tokens of each answer, in the order of the calls, with their numbers. */
function answers({ sink }: ProxyFixture) {
  return adaptProxySpans(sink.spans).triplets.map(({ response, metadata }) => [
    metadata.sequence_id,
    ...response.token_ids,
  ]);
}

test("calls of a known attempt go on, wait on disk, and are stored in order with numbers of their own", async () => {
  const folder = newFolder();
  const { sink, proxy } = start(folder);
  expect(await call(fixture)).toBe(200);
  await proxy.flush(5_000);
  sink.broken = away;
  for (let index = 0; index < 5; index += 1) expect(await call(fixture)).toBe(200);
  await onDisk(fixture, 5);
  expect(readdirSync(folder)).toHaveLength(1);
  sink.broken = null;
  expect(await call(fixture)).toBe(200);
  await proxy.flush(10_000);
  expect(answers(fixture)).toEqual([1, 2, 3, 4, 5, 6, 7].map((number) => [number, 9 + number]));
  const numbers = sink.spans.map(({ sequence_id, resource }) => [
    sequence_id,
    resource.attributes["agentlightning.span_sequence_id"],
  ]);
  expect(numbers.every(([own, named]) => own === named)).toBe(true);
  expect(JSON.stringify(sink.spans)).not.toContain("'x-sequence-id': '0'");
  expect(proxy.statistics()).toMatchObject({ spooledCalls: 0, waitingCalls: 0, callsLost: 0, stale: 0 });
});

test("an attempt that nobody asked about before is refused, and the model is not asked", async () => {
  const { sink, vllm } = start(newFolder());
  sink.broken = away;
  expect(await call(fixture)).toBe(503);
  expect(vllm.requests).toEqual([]);
});

test("a store that hangs delays no answer, and its calls are on disk soon", async () => {
  const { sink, proxy } = start(newFolder(), { storePatienceMs: 20 });
  await call(fixture);
  await proxy.flush(5_000);
  const { promise, resolve } = Promise.withResolvers<void>();
  const { nextSequenceIds, addSpans } = sink;
  sink.nextSequenceIds = async (requests) => (await promise, await nextSequenceIds(requests));
  sink.addSpans = async (spans) => (await promise, await addSpans(spans));
  for (let index = 0; index < 3; index += 1) expect(await call(fixture)).toBe(200);
  await onDisk(fixture, 3);
  resolve();
  await proxy.flush(10_000);
  expect(answers(fixture).map(([, token]) => token)).toEqual([10, 11, 12, 13]);
  expect(proxy.statistics()).toMatchObject({ spooledCalls: 0, waitingCalls: 0, openCalls: 0 });
});

test("with no disk to wait on, calls wait in memory", async () => {
  const folder = newFolder();
  const { sink, proxy } = start(folder);
  await call(fixture);
  await proxy.flush(5_000);
  rmSync(folder, { recursive: true });
  writeFileSync(folder, "");
  sink.broken = away;
  for (let index = 0; index < 3; index += 1) expect(await call(fixture)).toBe(200);
  await until("3 in memory", () => proxy.statistics().waitingCalls === 3);
  expect(proxy.statistics().spooledCalls).toBe(0);
  sink.broken = null;
  await proxy.flush(10_000);
  expect(answers(fixture).map(([, token]) => token)).toEqual([10, 11, 12, 13]);
});

test("a flush is answered with 204 only when the store has what waited on disk", async () => {
  const { sink, proxy, server } = start(newFolder(), { attemptFlushTimeoutMs: 100 });
  const flush = async () =>
    (await fetch(`${server.url}/rollout/ro-1/attempt/at-1/flush`, { method: "POST" })).status;
  await call(fixture);
  await proxy.flush(5_000);
  sink.broken = away;
  await call(fixture);
  await onDisk(fixture, 1);
  expect(await flush()).toBe(504);
  sink.broken = null;
  await until("the flush succeeds", async () => (await flush()) === 204);
  expect(sink.spans).toHaveLength(6);
});

describe("the next start", () => {
  test("sends what a proxy that ended left on disk, and a flush of that attempt waits for it", async () => {
    const folder = newFolder();
    const first = start(folder);
    await call(first);
    await first.proxy.flush(5_000);
    first.sink.broken = away;
    for (let index = 0; index < 3; index += 1) await call(first);
    await first.stop();
    expect(first.proxy.statistics()).toMatchObject({ callsLost: 0 });
    const second = start(folder);
    const flushed = await fetch(`${second.server.url}/rollout/ro-1/attempt/at-1/flush`, { method: "POST" });
    expect(flushed.status).toBe(204);
    expect(answers(second).map(([, token]) => token)).toEqual([11, 12, 13]);
    expect(second.proxy.statistics()).toMatchObject({ spooledCalls: 0, spooledBytes: 0 });
  });
});

describe("when no more can wait", () => {
  test("calls are refused with the reason, until there is room", async () => {
    const { sink, proxy, post } = start(newFolder(), { maxBytes: 1 });
    await call(fixture);
    await proxy.flush(5_000);
    sink.broken = away;
    await call(fixture);
    await onDisk(fixture, 1);
    const refused = await post({});
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "5"]);
    expect(await refused.json()).toMatchObject({ error: { code: "recording_backlog" } });
    expect(proxy.statistics().refused.recording_backlog).toBe(1);
    sink.broken = null;
    await proxy.flush(10_000);
    expect(await call(fixture)).toBe(200);
    await proxy.flush(5_000);
    expect(answers(fixture).map(([, token]) => token)).toEqual([10, 11, 12]);
  });

  test("with drop they go on, and each one that is lost is counted", async () => {
    const { sink, proxy } = start(newFolder(), { maxBytes: 1, whenFull: "drop" });
    await call(fixture);
    await proxy.flush(5_000);
    sink.broken = away;
    await call(fixture);
    await onDisk(fixture, 1);
    for (let index = 0; index < 3; index += 1) expect(await call(fixture)).toBe(200);
    await until("3 lost", () => proxy.statistics().callsLost === 3);
    sink.broken = null;
    await proxy.flush(10_000);
    expect(answers(fixture)).toHaveLength(2);
    expect(proxy.statistics()).toMatchObject({ openCalls: 0, waitingCalls: 0, waitingBytes: 0 });
  });
});

describe("a call that came while the store was away", () => {
  const end = (attempt: Attempt | undefined, end_time: number) =>
    Object.assign(attempt ?? {}, { status: "succeeded", end_time });

  test.each([
    ["after the end of its attempt is stale", -10, [true, true]],
    ["before the end of its attempt is not", 10, [undefined, undefined]],
  ])("%s", async (_, seconds, marks) => {
    const { sink, proxy } = start(newFolder());
    await call(fixture);
    await proxy.flush(5_000);
    sink.broken = away;
    for (let index = 0; index < 2; index += 1) await call(fixture);
    await onDisk(fixture, 2);
    end(sink.attempts[0], Date.now() / 1000 + seconds);
    sink.broken = null;
    await proxy.flush(10_000);
    const late = sink.spans.filter(({ name }) => name === "raw_gen_ai_request").slice(1);
    expect(late.map(({ attributes }) => attributes["agl.call.stale"])).toEqual(marks);
    expect(proxy.statistics().stale).toBe(marks.filter(Boolean).length);
  });
});

test("calls whose file on disk is damaged while they wait are counted as lost, and a flush does not wait for them", async () => {
  const folder = newFolder();
  const { sink, proxy, server } = start(folder);
  expect(await call(fixture)).toBe(200);
  await proxy.flush(5_000);
  sink.broken = away;
  for (let index = 0; index < 3; index += 1) expect(await call(fixture)).toBe(200);
  await onDisk(fixture, 3);
  for (const name of readdirSync(folder)) writeFileSync(join(folder, name), "not calls at all");
  sink.broken = null;
  await until("the damage is seen", () => proxy.statistics().callsLost === 3, 10_000);
  const flushed = await fetch(`${server.url}/rollout/ro-1/attempt/at-1/flush`, { method: "POST" });
  expect(flushed.status).toBe(204);
  expect(await call(fixture)).toBe(200);
  expect(await proxy.flush(5_000)).toBeUndefined();
  expect(answers(fixture)).toHaveLength(2);
}, 30_000);
