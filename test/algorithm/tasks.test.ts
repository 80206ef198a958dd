import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { mathTaskSchema, readTasks } from "../../src/algorithm/tasks.ts";
import { UsageError } from "../../src/errors.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const folder = temporaryFolder();
let number = 0;

function fileWith(content: string | Uint8Array): string {
  const file = join(folder, `tasks-${++number}.jsonl`);
  writeFileSync(file, content);
  return file;
}

function refusal(file: string): string {
  try {
    readTasks(file, mathTaskSchema);
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError);
    expect((error as UsageError).exitCode).toBe(2);
    return (error as UsageError).message;
  }
  throw new Error("was not refused");
}

describe("tasks are read", () => {
  test("with a byte order mark, CRLF and blank lines", () => {
    const file = fileWith(
      '\uFEFF{"input": "1+1?", "target": 2}\r\n\r\n{"input": "ü 🙂", "target": 3.5, "code": "x"}\r\n',
    );
    expect(readTasks(file, mathTaskSchema)).toEqual([
      { input: "1+1?", target: 2 },
      { input: "ü 🙂", target: 3.5, code: "x" },
    ]);
  });

  test("unchanged and in order, whatever they hold", () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.dictionary(fc.string(), fc.jsonValue(), { minKeys: 1 }), {
          minLength: 1,
          selector: (task) => JSON.stringify(task),
        }),
        (tasks) => {
          const expected = tasks.map((task) => JSON.parse(JSON.stringify(task)));
          const file = fileWith(tasks.map((task) => JSON.stringify(task)).join("\n"));
          expect(readTasks(file)).toEqual(expected);
        },
      ),
      { numRuns: 30 },
    );
  });
});

describe("a task file is refused with file, line and field", () => {
  test("when a line is no JSON, no object, or lacks a field", () => {
    const file = fileWith(
      '{"input": "a", "target": 1}\n{"input": "b"\n[1]\n{"input": "", "target": "7"}\n{"target": 1}\n',
    );
    const message = refusal(file);
    expect(message).toContain(`${file}, line 2: is not JSON`);
    expect(message).toContain(`${file}, line 3: expected a JSON object, not [1]`);
    expect(message).toContain(`line 4: field input: expected a text that is not empty, not ""`);
    expect(message).toContain(`field target: expected a number, not "7"`);
    expect(message).toContain("line 5: field input");
  });

  test("when a line is repeated, naming both", () => {
    const line = '{"input": "a", "target": 1}';
    expect(refusal(fileWith(`${line}\n{"input": "b", "target": 1}\n${line}\n`))).toContain(
      "line 3: repeats line 1",
    );
  });

  test("when it is empty, missing or no text", () => {
    expect(refusal(fileWith("\n\n"))).toContain("holds no task");
    expect(refusal(join(folder, "missing.jsonl"))).toContain("missing.jsonl: cannot be read");
    expect(refusal(fileWith(new Uint8Array([0xff, 0xfe, 0x00])))).toContain("is not UTF-8 text");
  });

  test("with at most ten problems shown and the rest counted", () => {
    const message = refusal(fileWith(Array.from({ length: 25 }, (_, index) => `x${index}`).join("\n")));
    expect(message.split("\n")).toHaveLength(11);
    expect(message).toContain("and 15 more");
  });
});
