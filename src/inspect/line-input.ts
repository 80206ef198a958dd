import { UsageError } from "../errors.ts";
import { LineProblem } from "./read-record.ts";

export interface InputLine {
  /** From 1. */
  number: number;
  bytes: Uint8Array;
}

/** Above what a store accepts in one request. */
const maxLineBytes = 256 * 1024 * 1024;
const lineFeed = 0x0a;

/** The lines of a stream, no more than one and a piece of the stream held at once. The signal ends it in between. */
export async function* eachLine(
  stream: ReadableStream<Uint8Array>,
  { maxBytes = maxLineBytes, signal }: { maxBytes?: number; signal?: AbortSignal } = {},
): AsyncGenerator<InputLine> {
  let number = 1;
  let begun: Uint8Array[] = [];
  let begunBytes = 0;
  for await (const piece of eachPiece(stream, signal)) {
    let start = 0;
    for (let end = piece.indexOf(lineFeed); end !== -1; end = piece.indexOf(lineFeed, start)) {
      yield { number, bytes: joined(begun, piece.subarray(start, end)) };
      [begun, begunBytes, start] = [[], 0, end + 1];
      number += 1;
    }
    if (start === piece.length) continue;
    begun.push(piece.slice(start));
    begunBytes += piece.length - start;
    if (begunBytes <= maxBytes) continue;
    throw new UsageError(
      `line ${number} is longer than ${maxBytes} bytes`,
      "put one JSON object on each line, as `agl export` does",
    );
  }
  if (begun.length > 0) yield { number, bytes: joined(begun) };
}

/** Without a byte order mark, and the carriage return of other systems. */
export function textOf({ bytes }: InputLine): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes).trim();
  } catch {
    throw new LineProblem("is not UTF-8 text: save the file as UTF-8");
  }
}

async function* eachPiece(
  stream: ReadableStream<Uint8Array>,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  const reader = stream.getReader();
  const stop = () => void reader.cancel().catch(() => {});
  signal?.addEventListener("abort", stop);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      signal?.throwIfAborted();
      if (done) return;
      yield value;
    }
  } finally {
    signal?.removeEventListener("abort", stop);
    stop();
  }
}

function joined(begun: Uint8Array[], last?: Uint8Array): Uint8Array {
  if (begun.length === 0 && last !== undefined) return last;
  return Buffer.concat(last === undefined ? begun : [...begun, last]);
}
