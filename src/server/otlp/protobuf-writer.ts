/** One field with a whole number, which must not be negative. */
export function varintField(number: number, value: number): Uint8Array {
  return Uint8Array.from([...varint(number * 8), ...varint(value)]);
}

/** One field with a text or a message. */
export function bytesField(number: number, content: string | Uint8Array): Uint8Array {
  const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
  return joined([Uint8Array.from([...varint(number * 8 + 2), ...varint(bytes.length)]), bytes]);
}

export function joined(fields: readonly Uint8Array[]): Uint8Array {
  return new Uint8Array(Buffer.concat(fields));
}

function varint(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 0x7f; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 0x80);
  return [...bytes, rest];
}
