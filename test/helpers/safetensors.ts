export interface TestTensor {
  dtype: string;
  shape: number[];
  bytes: number[];
}

/** A safetensors file as the format lays it out: header length, header, data. */
export function safetensors(tensors: Record<string, TestTensor>): Uint8Array {
  let at = 0;
  const header: Record<string, unknown> = { __metadata__: { format: "pt" } };
  for (const [name, { dtype, shape, bytes }] of Object.entries(tensors)) {
    header[name] = { dtype, shape, data_offsets: [at, (at += bytes.length)] };
  }
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text, ...Object.values(tensors).map(({ bytes }) => Buffer.from(bytes))]);
}
