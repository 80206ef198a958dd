/** One call on disk. */
export interface SpoolRecord {
  /** Which attempt it belongs to; readable without reading the spans. */
  attempt: string;
  /** JSON of its spans. */
  spans: string;
}

export interface ReadRecords {
  records: SpoolRecord[];
  /** Bytes that belong to no whole record: the end of a write that was cut off, or damage. */
  unreadableBytes: number;
}

/** Mark, length, checksum of the content, checksum of these three; numbers are little-endian. */
const headerBytes = 16;
const mark = new TextEncoder().encode("AGLs");

/**
 * A record says where it ends and what its bytes add up to, so that a file that was cut or damaged anywhere gives
 * back every other record whole. A content is JSON and holds no zero byte, a header always does: what looks like a
 * record inside another one is none.
 */
export function encodeRecord({ attempt, spans }: SpoolRecord): Uint8Array {
  const content = new TextEncoder().encode(`${attempt}\n${spans}`);
  const record = new Uint8Array(headerBytes + content.length);
  const view = new DataView(record.buffer);
  record.set(mark);
  view.setUint32(4, content.length, true);
  view.setUint32(8, Bun.hash.crc32(content), true);
  view.setUint32(12, Bun.hash.crc32(record.subarray(0, 12)), true);
  record.set(content, headerBytes);
  return record;
}

export function decodeRecords(bytes: Uint8Array): ReadRecords {
  const records: SpoolRecord[] = [];
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  let unreadableBytes = 0;
  for (let at = 0; at < bytes.length;) {
    const content = contentAt(bytes, at);
    if (content === null) {
      const next = buffer.indexOf(mark, at + 1);
      const end = next === -1 ? bytes.length : next;
      unreadableBytes += end - at;
      at = end;
      continue;
    }
    records.push(recordOf(content));
    at += headerBytes + content.length;
  }
  return { records, unreadableBytes };
}

function contentAt(bytes: Uint8Array, at: number): Uint8Array | null {
  if (at + headerBytes > bytes.length) return null;
  const header = bytes.subarray(at, at + headerBytes);
  const view = new DataView(header.buffer, header.byteOffset, headerBytes);
  if (!mark.every((byte, index) => header[index] === byte)) return null;
  if (view.getUint32(12, true) !== Bun.hash.crc32(header.subarray(0, 12))) return null;
  const start = at + headerBytes;
  const end = start + view.getUint32(4, true);
  if (end > bytes.length) return null;
  const content = bytes.subarray(start, end);
  return view.getUint32(8, true) === Bun.hash.crc32(content) ? content : null;
}

function recordOf(content: Uint8Array): SpoolRecord {
  const text = new TextDecoder().decode(content);
  const line = text.indexOf("\n");
  return { attempt: text.slice(0, line), spans: text.slice(line + 1) };
}
