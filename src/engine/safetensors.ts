import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import * as v from "valibot";

export interface Tensor {
  dtype: string;
  shape: number[];
  /** Where its bytes lie, from the start of the file. */
  start: number;
  end: number;
}

const bitsOf: Record<string, number> = {
  F64: 64,
  I64: 64,
  U64: 64,
  F32: 32,
  I32: 32,
  U32: 32,
  F16: 16,
  BF16: 16,
  I16: 16,
  U16: 16,
  F8_E4M3: 8,
  F8_E5M2: 8,
  I8: 8,
  U8: 8,
  BOOL: 8,
};
const maxHeaderBytes = 100_000_000;
const chunkBytes = 8 * 1024 * 1024;

const whole = v.pipe(v.number(), v.integer(), v.minValue(0));
const headerSchema = v.record(
  v.string(),
  v.object({ dtype: v.string(), shape: v.array(whole), data_offsets: v.tuple([whole, whole]) }),
);

/** The tensors of a safetensors file; throws when the file is not whole: header, sizes and length must agree. */
export function readTensors(file: string): Map<string, Tensor> {
  const descriptor = openSync(file, "r");
  try {
    const length = fstatSync(descriptor).size;
    const headerBytes = Number(readExactly(descriptor, 0, 8).readBigUInt64LE());
    if (headerBytes > Math.min(maxHeaderBytes, length - 8)) throw new Error("its header is cut off");
    const { __metadata__, ...header } = JSON.parse(
      readExactly(descriptor, 8, headerBytes).toString(),
    ) as Record<string, unknown>;
    const tensors = placeTensors(v.parse(headerSchema, header), 8 + headerBytes);
    const expected = Math.max(8 + headerBytes, ...[...tensors.values()].map(({ end }) => end));
    if (length !== expected) throw new Error(`it has ${length} bytes instead of ${expected}`);
    return tensors;
  } finally {
    closeSync(descriptor);
  }
}

/** SHA-256 over a tensor's bytes. */
export function hashTensor(file: string, { start, end }: Tensor): string {
  const hasher = new Bun.CryptoHasher("sha256");
  const descriptor = openSync(file, "r");
  try {
    for (let at = start; at < end; at += chunkBytes) {
      hasher.update(readExactly(descriptor, at, Math.min(chunkBytes, end - at)));
    }
  } finally {
    closeSync(descriptor);
  }
  return hasher.digest("hex");
}

function placeTensors(header: v.InferOutput<typeof headerSchema>, dataStart: number): Map<string, Tensor> {
  const tensors = new Map<string, Tensor>();
  for (const [name, { dtype, shape, data_offsets }] of Object.entries(header)) {
    const [start, end] = data_offsets;
    const bits = bitsOf[dtype];
    const elements = shape.reduce((product, size) => product * size, 1);
    if (bits !== undefined && end - start !== (elements * bits) / 8) {
      throw new Error(`tensor ${name} has ${end - start} bytes, which is not ${dtype} [${shape.join(", ")}]`);
    }
    tensors.set(name, { dtype, shape, start: dataStart + start, end: dataStart + end });
  }
  return tensors;
}

function readExactly(descriptor: number, position: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  let read = 0;
  while (read < length) {
    const more = readSync(descriptor, bytes, read, length - read, position + read);
    if (more === 0) throw new Error("it is cut off");
    read += more;
  }
  return bytes;
}
