import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { type ByteSource, collectBytes, sourceOf, streamOf } from "../../src/chat/byte-source.ts";

function streamFrom(parts: Uint8Array[], error?: Error): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>({
    pull(controller) {
      const part = parts.shift();
      if (part !== undefined) controller.enqueue(part);
      else if (error === undefined) controller.close();
      else controller.error(error);
    },
  });
}

test("bytes are the same as a stream, as a source, and as a stream again", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.uint8Array({ minLength: 1, maxLength: 9 })), async (parts) => {
      const whole = Buffer.concat(parts);
      expect(Buffer.from((await collectBytes(sourceOf(streamFrom([...parts])), 1_000))!)).toEqual(whole);
      const again = streamOf(sourceOf(streamFrom([...parts])));
      expect(Buffer.from(await new Response(again).arrayBuffer())).toEqual(whole);
    }),
  );
});

test("an error comes behind what came before it", async () => {
  const error = new Error("broken");
  const seen: unknown[] = [];
  await new Promise<void>((resolve) =>
    sourceOf(streamFrom([Uint8Array.of(1)], error)).start({
      bytes: (bytes) => void seen.push([...bytes]),
      end(reason) {
        seen.push(reason);
        resolve();
      },
    }),
  );
  expect(seen).toEqual([[1], error]);
});

describe("a reader that has enough", () => {
  test("ends the stream behind a source", async () => {
    let isCancelled = false;
    const endless = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(new Uint8Array(100)),
      cancel: () => void (isCancelled = true),
    });
    expect(await collectBytes(sourceOf(endless), 250)).toBeNull();
    expect(isCancelled).toBe(true);
  });

  test("ends the source behind a stream, and is told nothing more", async () => {
    let isCancelled = false;
    let give: (bytes: Uint8Array) => unknown = () => {};
    let end = () => {};
    const source: ByteSource = {
      start(receiver) {
        give = (bytes) => receiver.bytes(bytes);
        end = () => receiver.end();
      },
      cancel: () => void (isCancelled = true),
    };
    const stream = streamOf(source);
    give(Uint8Array.of(1));
    const reader = stream.getReader();
    expect((await reader.read()).value).toEqual(Uint8Array.of(1));
    await reader.cancel();
    expect(isCancelled).toBe(true);
    expect(give(Uint8Array.of(2))).toBeUndefined();
    expect(end).not.toThrow();
  });
});

test("a stream that nobody reads holds its source", async () => {
  let given = 0;
  let wait: unknown;
  const source: ByteSource = {
    start(receiver) {
      while (wait === undefined && given < 100) {
        given += 1;
        wait = receiver.bytes(Uint8Array.of(given));
      }
    },
    cancel() {},
  };
  const stream = streamOf(source);
  expect(given).toBeLessThan(20);
  const reader = stream.getReader();
  for (let read = 0; read < given; read += 1) await reader.read();
  expect(await (wait as Promise<void>)).toBeUndefined();
});
