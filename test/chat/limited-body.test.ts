import { describe, expect, test } from "bun:test";
import { readLimited } from "../../src/chat/limited-body.ts";

const text = "äöü".repeat(100);
const bytes = new TextEncoder().encode(text);

function streamed(headers: { [name: string]: string } = {}): Response {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (let at = 0; at < bytes.length; at += 7) controller.enqueue(bytes.slice(at, at + 7));
      controller.close();
    },
  });
  return new Response(body, { headers });
}

describe.each([
  ["of a known length", () => streamed({ "content-length": String(bytes.length) })],
  ["of a length that nobody said", () => streamed()],
  ["with a length that is not a number", () => streamed({ "content-length": "many" })],
  ["that was packed", () => streamed({ "content-length": "20", "content-encoding": "gzip" })],
])("a body %s", (_, message) => {
  test("is read whole up to the limit", async () => {
    expect(await readLimited(message(), bytes.length)).toEqual(bytes);
  });

  test("is refused above it", async () => {
    expect(await readLimited(message(), bytes.length - 1)).toBeNull();
  });
});

test("no body is an empty one", async () => {
  expect(await readLimited(new Response(null), 10)).toEqual(new Uint8Array());
});
