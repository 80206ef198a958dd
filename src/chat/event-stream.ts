/** One server-sent event with the exact bytes it came in, its final blank line included. */
export interface StreamEvent {
  raw: Uint8Array;
  /** The joined `data` lines; null for comments and blank lines. */
  data: string | null;
  /** The second half of the line break that ended the event before. */
  continues?: true;
}

const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const leastBufferBytes = 4096;

/**
 * Cuts a byte stream into events, wherever the reads were cut: lines end in LF, CR or CRLF, and text is decoded
 * only when its event is whole, so a character cut over two reads stays whole too.
 */
export class EventStreamParser {
  readonly #maxEventBytes: number;
  #buffer = new Uint8Array();
  #length = 0;
  /** Bytes already looked at. */
  #scanned = 0;
  #lineStart = 0;
  /** The last read ended with a CR: a LF that comes next belongs to it. */
  #openCarriageReturn = false;

  constructor(maxEventBytes = 64 * 1024 * 1024) {
    this.#maxEventBytes = maxEventBytes;
  }

  push(bytes: Uint8Array): StreamEvent[] {
    const events: StreamEvent[] = [];
    const isSimple = this.#length === 0 && !this.#openCarriageReturn && !bytes.includes(carriageReturn);
    const rest = isSimple ? bytes.subarray(takeWhole(bytes, events)) : bytes;
    if (rest.length > 0) this.#pushRest(rest, events);
    return events;
  }

  #pushRest(bytes: Uint8Array, events: StreamEvent[]): void {
    this.#append(bytes);
    let start = 0;
    if (this.#endedInCarriageReturn(bytes)) {
      // The event went on without waiting for it, so it goes by itself.
      events.push({ raw: Uint8Array.of(lineFeed), data: null, continues: true });
      start = this.#scanned = this.#lineStart = 1;
      this.#openCarriageReturn = false;
    }
    while (this.#scanned < this.#length) {
      const blank = this.#scanned === this.#lineStart;
      if (!this.#takeByte() || !blank) continue;
      events.push(toEvent(this.#buffer.slice(start, this.#scanned)));
      start = this.#scanned;
    }
    this.#drop(start);
  }

  /** The LF of the CRLF that ended the last event comes only now. */
  #endedInCarriageReturn(bytes: Uint8Array): boolean {
    return this.#openCarriageReturn && this.#length === bytes.length && bytes[0] === lineFeed;
  }

  /** True when the byte, with the LF of a CRLF, ended a line. */
  #takeByte(): boolean {
    const byte = this.#buffer[this.#scanned];
    this.#scanned += 1;
    if (byte === lineFeed && this.#openCarriageReturn) {
      this.#openCarriageReturn = false;
      this.#lineStart = this.#scanned;
      return false;
    }
    this.#openCarriageReturn = false;
    if (byte !== lineFeed && byte !== carriageReturn) return false;
    if (byte === carriageReturn) {
      if (this.#scanned === this.#length) this.#openCarriageReturn = true;
      else if (this.#buffer[this.#scanned] === lineFeed) this.#scanned += 1;
    }
    this.#lineStart = this.#scanned;
    return true;
  }

  /** What is left when the stream ends: an event without its blank line. */
  end(): StreamEvent | null {
    if (this.#length === 0) return null;
    const event = toEvent(this.#buffer.slice(0, this.#length));
    this.#drop(this.#length);
    return event;
  }

  #append(bytes: Uint8Array): void {
    const needed = this.#length + bytes.length;
    if (this.#length > this.#maxEventBytes) {
      throw new RangeError(`a server-sent event is larger than ${this.#maxEventBytes} bytes`);
    }
    if (needed > this.#buffer.length) {
      const larger = new Uint8Array(Math.max(needed, this.#buffer.length * 2, leastBufferBytes));
      larger.set(this.#buffer.subarray(0, this.#length));
      this.#buffer = larger;
    }
    this.#buffer.set(bytes, this.#length);
    this.#length = needed;
  }

  #drop(count: number): void {
    if (count === 0) return;
    this.#buffer.copyWithin(0, count, this.#length);
    this.#length -= count;
    this.#scanned -= count;
    this.#lineStart -= count;
  }
}

/** The events that are whole in these bytes, which hold no CR; what most reads are. Returns where the rest begins. */
function takeWhole(bytes: Uint8Array, events: StreamEvent[]): number {
  let start = 0;
  let lineStart = 0;
  for (;;) {
    const lineEnd = bytes.indexOf(lineFeed, lineStart);
    if (lineEnd === -1) return start;
    if (lineEnd === lineStart) {
      events.push(toEvent(bytes.subarray(start, lineEnd + 1)));
      start = lineEnd + 1;
    }
    lineStart = lineEnd + 1;
  }
}

const decoder = new TextDecoder();
const encoder = new TextEncoder();
const lineBreak = /\r\n|\n|\r/;

function toEvent(raw: Uint8Array): StreamEvent {
  const text = decoder.decode(raw);
  if (isSimple(text)) return { raw, data: text.slice("data: ".length, -2) };
  const data = text
    .split(lineBreak)
    .filter(isDataLine)
    .map((line) => line.slice("data:".length).replace(/^ /, ""));
  return { raw, data: data.length === 0 ? null : data.join("\n") };
}

/** What nearly every event is: one data line and a line feed. Worth its own path, once per token. */
function isSimple(text: string): boolean {
  return text.startsWith("data: ") && text.indexOf("\n") === text.length - 2 && !text.includes("\r");
}

function isDataLine(line: string): boolean {
  return line.startsWith("data:");
}

/** The event with other data; its remaining lines and its kind of line break stay. */
export function withData(event: StreamEvent, data: string): Uint8Array {
  const text = decoder.decode(event.raw);
  if (isSimple(text)) return encoder.encode(`data: ${data}\n\n`);
  return encoder.encode(withDataLines(text, data));
}

/** Every line keeps its own break: a cut may have fallen between the CR and the LF of the last one. */
function withDataLines(text: string, data: string): string {
  const parts = text.split(/(\r\n|\n|\r)/);
  let shown = "";
  let replaced = false;
  for (let index = 0; index < parts.length; index += 2) {
    const [line = "", lineEnd = ""] = parts.slice(index, index + 2);
    if (!isDataLine(line)) shown += line + lineEnd;
    else if (!replaced) {
      replaced = true;
      shown += data
        .split("\n")
        .map((part) => `data: ${part}`)
        .join(lineEnd)
        .concat(lineEnd);
    }
  }
  return shown;
}
