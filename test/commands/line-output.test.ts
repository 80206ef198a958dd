import { expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { LineOutput } from "../../src/commands/line-output.ts";
import { AglError } from "../../src/errors.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const failing = (code: string) => Object.assign(new Error(code), { code });

/** A descriptor that takes `most` bytes at once and is full every other time. */
function narrowPipe(most: number) {
  const taken: Buffer[] = [];
  let calls = 0;
  const write = (_: number, bytes: Uint8Array, offset: number, length: number) => {
    if (calls++ % 2 === 0) throw failing("EAGAIN");
    const part = Buffer.from(bytes.subarray(offset, offset + Math.min(most, length)));
    taken.push(part);
    return part.length;
  };
  return { write: write as never, text: () => Buffer.concat(taken).toString() };
}

test("a pipe that takes little at a time, and is full in between, gets everything", async () => {
  const pipe = narrowPipe(7_001);
  const output = new LineOutput(undefined, pipe.write);
  const lines = Array.from({ length: 300 }, (_, index) => `${index} größe ${"x".repeat(index)}`);
  for (const line of lines) expect(await output.line(line)).toBe(true);
  await output.close();
  expect(pipe.text()).toBe(lines.map((line) => `${line}\n`).join(""));
});

test("a reader that left ends the lines, without an error", async () => {
  let writes = 0;
  const output = new LineOutput(undefined, (() => {
    writes += 1;
    throw failing("EPIPE");
  }) as never);
  const wanted = [];
  for (let line = 0; line < 3; line++) wanted.push(await output.line("x".repeat(100_000)));
  await output.close();
  expect(wanted).toEqual([false, false, false]);
  expect(writes).toBe(1);
});

test("any other failure is told as one, with what to do", async () => {
  const output = new LineOutput(undefined, (() => {
    throw failing("ENOSPC");
  }) as never);
  await output.line("x");
  const failure = await output.close().catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(AglError);
  expect(failure).toMatchObject({
    message: "stdout cannot be written (ENOSPC)",
    remedy: "make room there, or write elsewhere with --output FILE",
  });
});

test("a folder is refused before anything is written", () => {
  const folder = temporaryFolder();
  expect(() => new LineOutput(folder)).toThrow(`--output: ${folder} is a folder`);
  expect(existsSync(`${folder}.part`)).toBe(false);
});

test("of a file that could not be finished nothing stays, and what was there before does", async () => {
  const file = join(temporaryFolder(), "rows.jsonl");
  const first = new LineOutput(file);
  await first.line("old");
  await first.close();
  const second = new LineOutput(file);
  await second.line("x".repeat(100_000));
  second.abandon();
  expect(readFileSync(file, "utf8")).toBe("old\n");
  expect(existsSync(`${file}.part`)).toBe(false);
});
