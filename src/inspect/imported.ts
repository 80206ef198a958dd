import { StoreRequestError, UsageError } from "../errors.ts";
import { type RecordKind, recordKinds, type StoreRecord } from "../protocol/store-record.ts";
import type { RecordFate } from "../store/record-writes.ts";
import { type InputLine, textOf } from "./line-input.ts";
import { LineProblem, readRecords } from "./read-record.ts";

/** How many records of each kind met which fate. */
export type ImportCounts = Record<RecordFate, Record<RecordKind, number>>;

const shownProblems = 10;

/** Hands on every record of the lines. Throws, with the numbers of the lines, when one of them cannot be taken. */
export async function importLines(
  lines: AsyncIterable<InputLine>,
  { name, write }: { name: string; write(record: StoreRecord): RecordFate },
): Promise<ImportCounts> {
  const counts: ImportCounts = { imported: none(), present: none(), kept: none() };
  const problems: string[] = [];
  for await (const line of lines) {
    try {
      const text = textOf(line);
      if (text === "") continue;
      for (const record of readRecords(text)) counts[write(record)][record.kind] += 1;
    } catch (error) {
      problems.push(`${name}, line ${line.number}: ${problemOf(error)}`);
      if (problems.length === shownProblems) break;
    }
  }
  if (problems.length > 0) throw refusal(problems);
  if (total(counts) === 0) throw new UsageError(`${name}: holds no line to import`, remedyForNothing);
  return counts;
}

const remedyForNothing = "`agl export all` writes what can be imported";

function none(): Record<RecordKind, number> {
  return { resources: 0, rollout: 0, attempt: 0, span: 0, worker: 0 };
}

function total(counts: ImportCounts): number {
  return Object.values(counts).reduce((sum, of) => sum + totalOf(of), 0);
}

export function totalOf(counts: Record<RecordKind, number>): number {
  return recordKinds.reduce((sum, kind) => sum + counts[kind], 0);
}

function problemOf(error: unknown): string {
  if (error instanceof LineProblem) return error.message;
  if (!(error instanceof StoreRequestError)) throw error;
  if (error.status === 409) return `${error.message} (leave the line out, or import into another store)`;
  return `${error.message}: neither in the store nor in an earlier line`;
}

function refusal(problems: string[]): UsageError {
  const more = problems.length === shownProblems ? "\n(only the first problems are told)" : "";
  return new UsageError(
    problems.join("\n") + more,
    "nothing was imported; correct these lines, and try again",
  );
}
