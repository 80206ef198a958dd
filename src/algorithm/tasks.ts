import { readFileSync } from "node:fs";
import * as v from "valibot";
import { messageOf, UsageError } from "../errors.ts";

/** GSM-hard's shape, which the math agent works on. */
export const mathTaskSchema = v.looseObject({
  input: v.pipe(v.string("expected a text"), v.regex(/\S/, "expected a text that is not empty")),
  target: v.pipe(v.number("expected a number"), v.finite("expected a finite number")),
});

export const anyTaskSchema = v.looseObject({});

const maxFileBytes = 512 * 1024 * 1024;

/**
 * Tasks from a JSONL file, one object a line. A byte order mark, CRLF and blank lines are fine; anything else is refused
 * with file, line and field, all problems (up to ten) at once.
 */
export function readTasks(file: string, schema: v.GenericSchema = anyTaskSchema): unknown[] {
  const problems: string[] = [];
  const tasks: unknown[] = [];
  const firstLineOf = new Map<string, number>();
  for (const [index, line] of linesOf(file).entries()) {
    const text = line.trim();
    if (text === "") continue;
    const where = `${file}, line ${index + 1}`;
    const earlier = firstLineOf.get(text);
    if (earlier !== undefined) {
      problems.push(`${where}: repeats line ${earlier}`);
      continue;
    }
    firstLineOf.set(text, index + 1);
    const found = parseTask(text, schema);
    if (typeof found === "string") problems.push(`${where}: ${found}`);
    else tasks.push(found.task);
  }
  if (problems.length > 0) {
    const more = problems.length > 10 ? `\n… and ${problems.length - 10} more` : "";
    throw new UsageError(
      problems.slice(0, 10).join("\n") + more,
      "correct or remove these lines; nothing was started",
    );
  }
  if (tasks.length === 0) {
    throw new UsageError(
      `${file}: holds no task`,
      'write one JSON object a line, e.g. {"input": "1+1?", "target": 2}',
    );
  }
  return tasks;
}

function linesOf(file: string): string[] {
  let bytes: Buffer;
  try {
    bytes = readFileSync(file);
  } catch (error) {
    throw new UsageError(`${file}: cannot be read (${messageOf(error)})`, "name an existing JSONL file");
  }
  if (bytes.length > maxFileBytes) {
    throw new UsageError(`${file}: ${bytes.length} bytes, more than ${maxFileBytes}`, "split the file");
  }
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return text.replace(/^\uFEFF/, "").split(/\r\n|\n|\r/);
  } catch {
    throw new UsageError(`${file}: is not UTF-8 text`, "save it as UTF-8");
  }
}

function parseTask(text: string, schema: v.GenericSchema): { task: unknown } | string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return `is not JSON (${messageOf(error)}): ${text.slice(0, 80)}`;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return `expected a JSON object, not ${text.slice(0, 80)}`;
  }
  const result = v.safeParse(schema, value);
  if (result.success) return { task: value };
  return result.issues.map(describeIssue).join("; ");
}

function describeIssue(issue: v.BaseIssue<unknown>): string {
  const field = `field ${v.getDotPath(issue) ?? ""}`;
  // A field that is not there is the object's issue, in valibot's own words.
  if (issue.input === undefined) return `${field}: is missing`;
  return `${field}: ${issue.message}, not ${JSON.stringify(issue.input)?.slice(0, 80)}`;
}
