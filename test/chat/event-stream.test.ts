import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { StreamEvent } from "../../src/chat/event-stream.ts";
import { EventStreamParser, withData } from "../../src/chat/event-stream.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

function parse(pieces: Uint8Array[]): StreamEvent[] {
  const parser = new EventStreamParser();
  const events = pieces.flatMap((piece) => parser.push(piece));
  const last = parser.end();
  return last === null ? events : [...events, last];
}

function dataOf(events: StreamEvent[]): string[] {
  return events.map(({ data }) => data).filter((data) => data !== null);
}

function bytesOf(events: StreamEvent[]): string {
  return decoder.decode(Buffer.concat(events.map(({ raw }) => raw)));
}

const texts = ['{"text":"漢字 😀"}', "[DONE]", "", "é"];
const streams = ["\n", "\r\n", "\r"].flatMap((eol) => {
  const events = texts.map((text) => `event: x${eol}data: ${text}${eol}${eol}`).join("");
  return [events, `: hello${eol}${eol}${events}`, events.slice(0, -eol.length)].map((text) =>
    encoder.encode(text),
  );
});

describe("however the bytes are cut, the events are the same", () => {
  test("cut once, at every byte", () => {
    for (const bytes of streams) {
      for (let at = 0; at <= bytes.length; at += 1) {
        const events = parse([bytes.slice(0, at), bytes.slice(at)]);
        expect(dataOf(events)).toEqual(texts);
        expect(bytesOf(events)).toBe(decoder.decode(bytes));
      }
    }
  });

  test("cut twice, at every two bytes", () => {
    const bytes = encoder.encode("data: é\r\n\r\ndata: 😀\r\n\r\n");
    for (let first = 0; first <= bytes.length; first += 1) {
      for (let second = first; second <= bytes.length; second += 1) {
        const events = parse([bytes.slice(0, first), bytes.slice(first, second), bytes.slice(second)]);
        expect(dataOf(events)).toEqual(["é", "😀"]);
      }
    }
  });

  test("every byte alone", () => {
    for (const bytes of streams)
      expect(dataOf(parse([...bytes].map((byte) => Uint8Array.of(byte))))).toEqual(texts);
  });

  test("any stream, cut anywhere: no byte is lost or moved", () => {
    const piece = fc.oneof(fc.constantFrom("\n", "\r", "\r\n", "data: ", ":", "id: 1"), fc.string());
    fc.assert(
      fc.property(fc.array(piece), fc.array(fc.nat({ max: 9 })), (pieces, sizes) => {
        const bytes = encoder.encode(pieces.join(""));
        const cut: Uint8Array[] = [];
        for (let at = 0, index = 0; at < bytes.length; index += 1) {
          const size = sizes[index % Math.max(1, sizes.length)] ?? 0;
          cut.push(bytes.slice(at, at + size + 1));
          at += size + 1;
        }
        expect(bytesOf(parse(cut))).toBe(decoder.decode(bytes));
        expect(dataOf(parse(cut))).toEqual(dataOf(parse([bytes])));
      }),
    );
  });
});

test("an event is there as soon as its blank line is, before the next byte", () => {
  const parser = new EventStreamParser();
  expect(dataOf(parser.push(encoder.encode("data: a\r\n\r")))).toEqual(["a"]);
  expect(dataOf(parser.push(encoder.encode("\ndata: b\n\n")))).toEqual(["b"]);
  expect(parser.end()).toBeNull();
});

test("several data lines are one data, and a blank is optional", () => {
  expect(dataOf(parse([encoder.encode("data:a\ndata:  b\ndata\n\n")]))).toEqual(["a\n b"]);
});

test("an event has a limit", () => {
  const parser = new EventStreamParser(100);
  expect(() => {
    for (let index = 0; index < 20; index += 1) parser.push(encoder.encode("data: long "));
  }).toThrow("larger than 100 bytes");
});

test("other data keeps the other lines and the kind of line break", () => {
  const [event] = parse([encoder.encode(": c\r\nid: 4\r\ndata: a\r\ndata: b\r\n\r\n")]);
  expect(decoder.decode(withData(event as StreamEvent, "x\ny"))).toBe(
    ": c\r\nid: 4\r\ndata: x\r\ndata: y\r\n\r\n",
  );
});
