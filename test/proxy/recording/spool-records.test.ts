import { expect, test } from "bun:test";
import fc from "fast-check";
import { decodeRecords, encodeRecord, type SpoolRecord } from "../../../src/proxy/recording/spool-records.ts";

const json = fc.oneof(
  fc.json(),
  fc.string({ unit: "binary" }).map((text) => JSON.stringify(text)),
  // What a record begins with.
  fc.constant('"AGLs\\u0000AGLs"'),
);
const record: fc.Arbitrary<SpoolRecord> = fc.record({
  attempt: fc.tuple(fc.string(), fc.string()).map((ids) => JSON.stringify(ids)),
  spans: json,
});
const file = fc.array(record, { minLength: 1, maxLength: 8 }).map((records) => {
  const parts = records.map(encodeRecord);
  const ends = parts.reduce<number[]>((before, part) => [...before, (before.at(-1) ?? 0) + part.length], []);
  return { records, ends, bytes: new Uint8Array(Buffer.concat(parts)) };
});

test("a file that is cut anywhere gives back exactly the records that are whole", () => {
  fc.assert(
    fc.property(file, fc.nat(), ({ records, ends, bytes }, place) => {
      const cut = place % (bytes.length + 1);
      const whole = ends.filter((end) => end <= cut);
      expect(decodeRecords(bytes.subarray(0, cut))).toEqual({
        records: records.slice(0, whole.length),
        unreadableBytes: cut - (whole.at(-1) ?? 0),
      });
    }),
  );
});

test("a byte that changed anywhere takes one record with it, and makes none", () => {
  fc.assert(
    fc.property(
      file,
      fc.nat(),
      fc.integer({ min: 1, max: 255 }),
      ({ records, ends, bytes }, place, change) => {
        const at = place % bytes.length;
        const damaged = bytes.slice();
        damaged[at] = (damaged[at] ?? 0) ^ change;
        const hit = ends.findIndex((end) => at < end);
        const read = decodeRecords(damaged);
        expect(read.records).toEqual(records.toSpliced(hit, 1));
        expect(read.unreadableBytes).toBe((ends[hit] ?? 0) - (ends[hit - 1] ?? 0));
      },
    ),
  );
});

test("bytes of any kind between records hide none of them", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(record, fc.uint8Array({ maxLength: 40 })), { maxLength: 5 }), (parts) => {
      const bytes = Buffer.concat(parts.flatMap(([one, noise]) => [encodeRecord(one), noise]));
      expect(decodeRecords(bytes).records).toEqual(parts.map(([one]) => one));
    }),
  );
});
