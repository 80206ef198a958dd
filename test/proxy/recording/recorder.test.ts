import { describe, expect, test } from "bun:test";
import { AglError, StoreRequestError } from "../../../src/errors.ts";
import { silentLogger } from "../../../src/log.ts";
import type { RecorderOptions } from "../../../src/proxy/recording/recorder.ts";
import { Recorder } from "../../../src/proxy/recording/recorder.ts";
import type { Span } from "../../../src/protocol/types.ts";
import { createMemorySink } from "../../helpers/memory-sink.ts";

function makeRecorder(options: Partial<RecorderOptions> = {}) {
  const store = createMemorySink();
  const recorder = new Recorder({ store, log: silentLogger, firstRetryMs: 1, ...options });
  const record = (attempt: string, spans: Span[]) => recorder.begin("ro-1", attempt).record(() => spans, 10);
  return { store, recorder, record };
}

const spans = (name: string): Span[] => [{ name } as Span, { name } as Span];

test("calls that end in one tick go together, and so do those that end while a write is under way", async () => {
  const { store, recorder, record } = makeRecorder();
  const { addSpans } = store;
  store.addSpans = (first) => {
    store.addSpans = addSpans;
    for (let call = 3; call < 50; call += 1) record("at-1", spans(`${call}`));
    return addSpans(first);
  };
  for (let call = 0; call < 3; call += 1) record("at-1", spans(`${call}`));
  expect(await recorder.flush(4_000)).toBe(true);
  expect(store.writes).toEqual([6, 94]);
});

test("nothing is lost or stored twice over batches, a store that comes and goes, and retries", async () => {
  const { store, recorder, record } = makeRecorder();
  store.broken = new Error("away");
  for (let call = 0; call < 450; call += 1) record("at-1", spans(`${call}`));
  await Bun.sleep(5);
  store.broken = null;
  expect(await recorder.flush(5_000)).toBe(true);
  const names = store.spans.map(({ name }) => Number(name)).sort((one, other) => one - other);
  expect(names).toEqual(Array.from({ length: 900 }, (_, index) => Math.floor(index / 2)));
  expect(recorder.statistics()).toMatchObject({ spansStored: 900, waitingBytes: 0, openCalls: 0 });
  expect(recorder.statistics().storeRetries).toBeGreaterThan(0);
});

describe("flushing", () => {
  test("waits for open calls of that attempt only", async () => {
    const { recorder } = makeRecorder();
    const open = recorder.begin("ro-1", "at-1");
    expect(await recorder.flush(4_000, "ro-1", "at-2")).toBe(true);
    expect(await recorder.flush(5, "ro-1", "at-1")).toBe(false);
    const flushed = recorder.flush(4_000, "ro-1", "at-1");
    open.record(() => spans("x"), 1);
    expect(await flushed).toBe(true);
  });

  test("a discarded call is no longer waited for, and ends once", async () => {
    const { recorder, store } = makeRecorder();
    const open = recorder.begin("ro-1", "at-1");
    const flushed = recorder.flush(4_000);
    open.discard();
    open.discard();
    open.record(() => spans("late"), 1);
    expect(await flushed).toBe(true);
    expect([store.spans, recorder.statistics().openCalls]).toEqual([[], 0]);
  });
});

test("one call the store refuses does not take its neighbours with it", async () => {
  const { store, recorder, record } = makeRecorder();
  const write = store.addSpans;
  store.addSpans = async (batch) => {
    if (batch.some(({ name }) => name === "bad")) throw new StoreRequestError(422, "bad span");
    return await write(batch);
  };
  for (const name of ["first", "good", "bad", "other"]) record("at-1", spans(name));
  expect(await recorder.flush(4_000)).toBe(true);
  expect(store.spans.map(({ name }) => name)).toEqual(["first", "first", "good", "good", "other", "other"]);
  expect(recorder.statistics()).toMatchObject({ spansStored: 6, spansRejected: 2, waitingCalls: 0 });
});

test("a call the store can never take holds up no other", async () => {
  const { store, recorder, record } = makeRecorder({ maxRetryMs: 2 });
  const write = store.addSpans;
  store.addSpans = async (batch) => {
    if (batch.some(({ name }) => name === "huge")) {
      throw new AglError("store", "too large", { cause: { status: 413 } });
    }
    return await write(batch);
  };
  for (const name of ["first", "huge", "a", "b", "c"]) record("at-1", spans(name));
  while (recorder.statistics().waitingCalls > 1) await Bun.sleep(1);
  expect(store.spans.map(({ name }) => name).sort()).toEqual([
    "a",
    "a",
    "b",
    "b",
    "c",
    "c",
    "first",
    "first",
  ]);
  store.addSpans = write;
  expect(await recorder.flush(4_000)).toBe(true);
  expect(store.spans.at(-1)?.name).toBe("huge");
});

test("a batch has a limit in bytes", async () => {
  const { store, recorder } = makeRecorder();
  const megabyte = 1024 * 1024;
  for (let call = 0; call < 21; call += 1) recorder.begin("ro-1", "at-1").record(() => spans("x"), megabyte);
  expect(await recorder.flush(4_000)).toBe(true);
  expect(store.writes).toEqual([16, 16, 10]);
});

test("spans the store turns down one by one, and those it has already, are counted", async () => {
  const { store, recorder, record } = makeRecorder();
  store.addSpans = () =>
    Promise.resolve({ stored: 0, duplicates: 1, rejected: [{ index: 1, detail: "no rollout" }] });
  record("at-1", spans("x"));
  expect(await recorder.flush(4_000)).toBe(true);
  expect(recorder.statistics()).toMatchObject({ spansStored: 0, spansDuplicate: 1, spansRejected: 1 });
});

test("a call that cannot be written as spans is counted as lost and blocks nothing", async () => {
  const { recorder } = makeRecorder();
  recorder.begin("ro-1", "at-1").record(() => {
    throw new Error("odd");
  }, 1);
  expect(await recorder.flush(4_000)).toBe(true);
  expect(recorder.statistics().callsLost).toBe(1);
});

test("full by number or by bytes", () => {
  const away = { store: { addSpans: () => Promise.reject(new Error("away")) } };
  const byNumber = makeRecorder({ ...away, maxWaitingCalls: 1 });
  const byBytes = makeRecorder({ ...away, maxWaitingBytes: 10 });
  for (const { recorder, record } of [byNumber, byBytes]) {
    expect(recorder.isFull()).toBe(false);
    record("at-1", spans("x"));
    expect(recorder.isFull()).toBe(true);
    recorder.close();
  }
});

test("closing ends a wait and loses what the store never took", async () => {
  const { recorder, record } = makeRecorder({ store: { addSpans: () => Promise.reject(new Error("away")) } });
  record("at-1", spans("x"));
  const flushed = recorder.flush(60_000);
  recorder.close();
  recorder.close();
  expect(await flushed).toBe(false);
  expect(recorder.statistics()).toMatchObject({ callsLost: 1, waitingCalls: 0, waitingBytes: 0 });
});

test("a store that is away changes nothing in the order of the calls, one by one or many", async () => {
  const { store, recorder, record } = makeRecorder({ maxRetryMs: 2 });
  store.broken = new Error("away");
  const names = Array.from({ length: 20 }, (_, index) => `${index}`);
  for (const name of names) {
    record("at-1", spans(name));
    await Bun.sleep(1);
  }
  store.broken = null;
  expect(await recorder.flush(4_000)).toBe(true);
  expect(store.spans.filter((_, index) => index % 2 === 0).map(({ name }) => name)).toEqual(names);
});
