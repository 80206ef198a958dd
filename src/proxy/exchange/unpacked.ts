import { type ByteSource, sourceOf, streamOf } from "../../chat/byte-source.ts";

/** By the names that HTTP has for them. */
const formats = new Map([
  ["gzip", "gzip"],
  ["x-gzip", "gzip"],
  ["deflate", "deflate"],
  ["br", "brotli"],
  ["zstd", "zstd"],
]);

/** The body of an answer. As `fetch` does it: in an encoding that it does not know, the bytes are left as they are. */
export function unpacked(body: ByteSource, headers: Headers): ByteSource {
  const encoding = headers.get("content-encoding");
  if (encoding === null) return body;
  const format = formats.get(encoding.toLowerCase());
  const isEmpty = headers.get("content-length") === "0";
  if (format === undefined || isEmpty) return body;
  const { readable, writable } = new DecompressionStream(format as CompressionFormat);
  const packed = streamOf(body) as ReadableStream<BufferSource>;
  return sourceOf(packed.pipeThrough({ readable, writable }));
}
