/**
 * A span's JSON as it lies in the file. Measured with batches of 256 per commit, on two cores, with the schema of
 * `span-compaction.ts`, database bytes / JSON bytes and CPU per span:
 *
 * | span                         | as text       | zstd 1        | deflate 1 (body alone) |
 * | ---------------------------- | ------------- | ------------- | ---------------------- |
 * | a reward, 646 bytes          | 1.35,  5.4 µs | 0.87,  8.6 µs | x1.50, zstd x1.79      |
 * | 20 attributes, 1.4 kB        | 1.49,  9.1 µs | 0.62, 11.8 µs | x1.77, zstd x2.19      |
 * | a call with its ids, 2.9 kB  | 1.43, 15.4 µs | 0.72, 21.2 µs | x1.44, zstd x2.01      |
 *
 * Level 3 takes a third longer and saves nothing. Reading costs 2 to 7 µs, as much as parsing the JSON again.
 */
const level = 1;

const decoder = new TextDecoder();

export function packBody(json: string): Uint8Array {
  return Bun.zstdCompressSync(json, { level });
}

export function unpackBody(body: Uint8Array): string {
  return decoder.decode(Bun.zstdDecompressSync(body));
}
