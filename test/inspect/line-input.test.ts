import { expect, test } from "bun:test";
import fc from "fast-check";
import { eachLine, textOf } from "../../src/inspect/line-input.ts";

function streamOf(pieces: Uint8Array[]): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece);
      controller.close();
    },
  });
}

async function linesOf(pieces: Uint8Array[], maxBytes?: number): Promise<string[]> {
  const lines = await Array.fromAsync(eachLine(streamOf(pieces), { maxBytes }));
  expect(lines.map(({ number }) => number)).toEqual(lines.map((_, index) => index + 1));
  return lines.map(textOf);
}

test("however the bytes arrive, the lines are the same", async () => {
  const line = fc.constantFrom("", "a", "é", "😀{}", "  ");
  await fc.assert(
    fc.asyncProperty(
      fc.array(line),
      fc.array(fc.nat({ max: 6 })),
      fc.boolean(),
      async (given, cuts, ended) => {
        const bytes = Buffer.from(given.join("\n") + (ended ? "\n" : ""));
        const pieces: Uint8Array[] = [];
        let rest: Uint8Array = bytes;
        for (const cut of cuts) {
          pieces.push(rest.subarray(0, cut));
          rest = rest.subarray(cut);
        }
        const expected = bytes.toString().split("\n");
        if (expected.at(-1) === "") expected.pop();
        expect(await linesOf([...pieces, rest])).toEqual(expected.map((text) => text.trim()));
      },
    ),
  );
});

test("a line without an end is refused before it fills the memory", async () => {
  const pieces = [Buffer.from("a\n"), Buffer.alloc(60, "b"), Buffer.alloc(60, "b")];
  await expect(linesOf(pieces, 100)).rejects.toThrow(/line 2 is longer than 100 bytes/);
  expect(await linesOf(pieces, 200)).toHaveLength(2);
});

test("the signal ends a stream that says nothing", async () => {
  const stop = new AbortController();
  const silent = new ReadableStream<Uint8Array>({});
  const reading = Array.fromAsync(eachLine(silent, { signal: stop.signal }));
  stop.abort(new Error("stopped"));
  await expect(reading).rejects.toThrow("stopped");
});
