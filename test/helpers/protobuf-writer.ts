/** Fields of a protobuf message, written one after another. */
export type ProtobufField =
  | { number: number; varint: bigint | number }
  | { number: number; fixed64: bigint }
  | { number: number; double: number }
  | { number: number; bytes: Uint8Array | string | ProtobufField[] };

export function writeProtobuf(fields: ProtobufField[]): Uint8Array {
  return Buffer.concat(fields.map(writeField));
}

function writeField(field: ProtobufField): Uint8Array {
  if ("varint" in field) return Buffer.concat([key(field.number, 0), varint(BigInt(field.varint))]);
  if ("fixed64" in field)
    return Buffer.concat([key(field.number, 1), eight((view) => view.setBigUint64(0, field.fixed64, true))]);
  if ("double" in field)
    return Buffer.concat([key(field.number, 1), eight((view) => view.setFloat64(0, field.double, true))]);
  const { bytes } = field;
  const content =
    typeof bytes === "string" ? Buffer.from(bytes) : Array.isArray(bytes) ? writeProtobuf(bytes) : bytes;
  return Buffer.concat([key(field.number, 2), varint(BigInt(content.length)), content]);
}

function key(number: number, wireType: number): Uint8Array {
  return varint(BigInt(number * 8 + wireType));
}

function varint(value: bigint): Uint8Array {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, value);
  for (; rest > 0x7fn; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  return Uint8Array.from([...bytes, Number(rest)]);
}

function eight(write: (view: DataView) => void): Uint8Array {
  const bytes = new Uint8Array(8);
  write(new DataView(bytes.buffer));
  return bytes;
}

export type OtlpValue =
  string | boolean | bigint | number | Uint8Array | null | OtlpValue[] | Map<string, OtlpValue>;

/** Integers as bigint, floats as number. */
export function keyValue(name: string, value: OtlpValue): ProtobufField[] {
  return [
    { number: 1, bytes: name },
    { number: 2, bytes: anyValue(value) },
  ];
}

function anyValue(value: OtlpValue): ProtobufField[] {
  if (value === null) return [];
  if (typeof value === "string") return [{ number: 1, bytes: value }];
  if (typeof value === "boolean") return [{ number: 2, varint: value ? 1 : 0 }];
  if (typeof value === "bigint") return [{ number: 3, varint: value }];
  if (typeof value === "number") return [{ number: 4, double: value }];
  if (value instanceof Uint8Array) return [{ number: 7, bytes: value }];
  if (Array.isArray(value)) {
    return [{ number: 5, bytes: value.map((item) => ({ number: 1, bytes: anyValue(item) })) }];
  }
  const members = [...value].map(([name, item]) => ({ number: 1, bytes: keyValue(name, item) }));
  return [{ number: 6, bytes: members }];
}

export interface WrittenSpan {
  traceId?: Uint8Array;
  spanId: Uint8Array;
  parentId?: Uint8Array;
  name?: string;
  start?: bigint;
  end?: bigint;
  attributes?: [string, OtlpValue][];
  events?: { name: string; time: bigint; attributes: [string, OtlpValue][] }[];
  links?: { traceId: Uint8Array; spanId: Uint8Array; attributes: [string, OtlpValue][] }[];
  status?: { code: number; message: string };
  more?: ProtobufField[];
}

/** An `ExportTraceServiceRequest` with one resource and one scope. */
export function otlpRequest(
  resource: [string, OtlpValue][],
  spans: WrittenSpan[],
  schemaUrl = "",
): Uint8Array {
  const attributes = resource.map(([name, value]) => ({ number: 1, bytes: keyValue(name, value) }));
  const scope: ProtobufField[] = [
    { number: 1, bytes: [{ number: 1, bytes: "a scope" }] },
    ...spans.map((span) => ({ number: 2, bytes: spanFields(span) })),
  ];
  return writeProtobuf([
    {
      number: 1,
      bytes: [
        { number: 2, bytes: scope },
        { number: 1, bytes: attributes },
        { number: 3, bytes: schemaUrl },
      ],
    },
  ]);
}

function spanFields(span: WrittenSpan): ProtobufField[] {
  return [
    { number: 1, bytes: span.traceId ?? new Uint8Array(16).fill(10) },
    { number: 2, bytes: span.spanId },
    { number: 3, bytes: "a=b" },
    ...(span.parentId === undefined ? [] : [{ number: 4, bytes: span.parentId }]),
    { number: 5, bytes: span.name ?? "n0" },
    { number: 6, varint: 1 },
    { number: 7, fixed64: span.start ?? 1_700_000_000_123_456_700n },
    { number: 8, fixed64: span.end ?? 1_700_000_001_123_456_700n },
    ...(span.attributes ?? []).map(([name, value]) => ({ number: 9, bytes: keyValue(name, value) })),
    ...(span.events ?? []).map(({ name, time, attributes }) => ({
      number: 11,
      bytes: [
        { number: 1, fixed64: time },
        { number: 2, bytes: name },
        ...attributes.map(([key, value]) => ({ number: 3, bytes: keyValue(key, value) })),
      ],
    })),
    ...(span.links ?? []).map(({ traceId, spanId, attributes }) => ({
      number: 13,
      bytes: [
        { number: 1, bytes: traceId },
        { number: 2, bytes: spanId },
        ...attributes.map(([key, value]) => ({ number: 4, bytes: keyValue(key, value) })),
      ],
    })),
    ...(span.status === undefined ? [] : [{ number: 15, bytes: statusFields(span.status) }]),
    ...(span.more ?? []),
  ];
}

function statusFields({ code, message }: { code: number; message: string }): ProtobufField[] {
  return [
    { number: 2, bytes: message },
    { number: 3, varint: code },
  ];
}
