import { expect, test } from "bun:test";
import fc from "fast-check";
import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { TrainerProgressFile } from "../../src/engine/trainer-progress.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const file = join(temporaryFolder(), "progress.jsonl");

test("however the bytes arrive, each line is read once and in order", () => {
  const line = fc.record({ kind: fc.constant("progress" as const), phase: fc.string({ unit: "grapheme" }) });
  fc.assert(
    fc.property(fc.array(line), fc.infiniteStream(fc.integer({ min: 1, max: 40 })), (lines, sizes) => {
      writeFileSync(file, "");
      const reader = new TrainerProgressFile(file, () => {});
      const bytes = Buffer.from(lines.map((each) => JSON.stringify(each) + "\n").join(""));
      const read = [];
      for (let at = 0; at < bytes.length;) {
        const end = at + (sizes.next().value ?? 1);
        appendFileSync(file, bytes.subarray(at, end));
        read.push(...reader.read());
        at = end;
      }
      expect(read).toEqual(lines);
      expect(reader.read()).toEqual([]);
    }),
    { numRuns: 50 },
  );
});

test("lines that are no trainer's are handed over and the rest is read", () => {
  writeFileSync(file, 'garbage\n{"kind":"result"}\n{"kind":"log","message":"fine"}\n');
  const bad: string[] = [];
  expect(new TrainerProgressFile(file, (line) => bad.push(line)).read()).toEqual([
    { kind: "log", message: "fine" },
  ]);
  expect(bad).toEqual(["garbage", '{"kind":"result"}']);
});

test("a file that is not there yet holds nothing", () => {
  expect(new TrainerProgressFile(`${file}.none`, () => {}).read()).toEqual([]);
});
