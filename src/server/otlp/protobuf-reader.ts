import { MessageBudget, PayloadError } from "./payload-error.ts";

/** Bytes that are no protobuf message, or not the expected one. */
export class ProtobufError extends PayloadError {
  constructor(reason: string) {
    super(`not the expected protobuf message: ${reason}`);
  }
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

const wireTypes = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const;

/** Reads the fields of one message, in the order in which they come. Unknown ones are skipped. */
export class ProtobufReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #budget: MessageBudget;
  #position = 0;
  #wireType = 0;

  constructor(bytes: Uint8Array, budget: MessageBudget = new MessageBudget()) {
    budget.take();
    this.#budget = budget;
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** The number of the next field, or null at the end. Its value must be read or skipped before the next one. */
  next(): number | null {
    if (this.#position === this.#bytes.length) return null;
    const key = this.#small();
    this.#wireType = key % 8;
    if (key < 8) throw new ProtobufError(`field number 0 at byte ${this.#position}`);
    return Math.floor(key / 8);
  }

  bytes(): Uint8Array {
    this.#expect("bytes");
    const length = this.#small();
    return this.#take(length);
  }

  text(): string {
    return decoder.decode(this.bytes());
  }

  message(): ProtobufReader {
    return new ProtobufReader(this.bytes(), this.#budget);
  }

  unsigned(): bigint {
    this.#expect("varint");
    return this.#varint();
  }

  signed(): bigint {
    return BigInt.asIntN(64, this.unsigned());
  }

  fixed64(): bigint {
    this.#expect("fixed64");
    return this.#eight((at) => this.#view.getBigUint64(at, true));
  }

  double(): number {
    this.#expect("fixed64");
    return this.#eight((at) => this.#view.getFloat64(at, true));
  }

  skip(): void {
    switch (this.#wireType) {
      case wireTypes.varint:
        this.#varint();
        return;
      case wireTypes.fixed64:
        this.#take(8);
        return;
      case wireTypes.bytes:
        this.bytes();
        return;
      case wireTypes.fixed32:
        this.#take(4);
        return;
    }
    throw new ProtobufError(`wire type ${this.#wireType} at byte ${this.#position}`);
  }

  #expect(name: keyof typeof wireTypes): void {
    if (this.#wireType === wireTypes[name]) return;
    throw new ProtobufError(`wire type ${this.#wireType} instead of ${name} at byte ${this.#position}`);
  }

  /** A number below 2^28 without the detour over bigint: keys and lengths nearly always are. */
  #small(): number {
    const start = this.#position;
    let value = 0;
    for (let shift = 0; shift < 28; shift += 7) {
      const byte = this.#bytes[this.#position++];
      if (byte === undefined) throw truncated();
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    this.#position = start;
    return Number(this.#varint());
  }

  #varint(): bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.#bytes[this.#position++];
      if (byte === undefined) throw truncated();
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asUintN(64, value);
    }
    throw new ProtobufError(`a number without an end at byte ${this.#position}`);
  }

  #eight<Value>(read: (at: number) => Value): Value {
    const at = this.#position;
    this.#take(8);
    return read(at);
  }

  #take(length: number): Uint8Array {
    const end = this.#position + length;
    if (end > this.#bytes.length) throw truncated();
    const taken = this.#bytes.subarray(this.#position, end);
    this.#position = end;
    return taken;
  }
}

function truncated(): ProtobufError {
  return new ProtobufError("the message is truncated");
}
