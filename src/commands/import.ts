import { statSync } from "node:fs";
import { resolve } from "node:path";
import type { Config } from "../config.ts";
import { UsageError } from "../errors.ts";
import { type ImportCounts, importLines, totalOf } from "../inspect/imported.ts";
import { eachLine } from "../inspect/line-input.ts";
import { createLogger } from "../log.ts";
import { type RecordKind, recordKinds } from "../protocol/store-record.ts";
import { openStoreImport } from "../store/store-import.ts";
import type { ImportOptions } from "./import-options.ts";
import { stopOnSignals } from "./stop-signals.ts";

const plurals: Record<RecordKind, [one: string, many: string]> = {
  resources: ["set of resources", "sets of resources"],
  rollout: ["rollout", "rollouts"],
  attempt: ["attempt", "attempts"],
  span: ["span", "spans"],
  worker: ["worker", "workers"],
};

/** `agl import FILE`: all of it or nothing. */
export async function importFile(
  config: Config,
  { args, own }: { args: string[]; own: Record<string, unknown> },
): Promise<number> {
  const file = args[0]!;
  const { db, dryRun = false } = own as unknown as ImportOptions;
  if (db === ":memory:")
    throw new UsageError("--db is :memory:", "name a file, which keeps what is imported");
  const input = openInput(file);
  const stop = stopOnSignals((line) => process.stderr.write(`${line}\n`));
  const target = openStoreImport(resolve(db), createLogger("store", { level: config.log_level }));
  try {
    const counts = await importLines(eachLine(input, { signal: stop.signal }), {
      name: file === "-" ? "stdin" : file,
      write: (record) => target.write(record),
    });
    if (!dryRun) target.commit();
    console.log(summary(counts, db, dryRun));
    return 0;
  } finally {
    target.close();
    stop.release();
  }
}

function openInput(file: string): ReadableStream<Uint8Array> {
  if (file === "-") return Bun.stdin.stream();
  const found = statSync(file, { throwIfNoEntry: false });
  if (found !== undefined && !found.isDirectory()) return Bun.file(file).stream();
  throw new UsageError(
    `${file}: ${found === undefined ? "there is no such file" : "is a folder"}`,
    "name a file of JSON lines, or - for stdin",
  );
}

function summary({ imported, present, kept }: ImportCounts, db: string, dryRun: boolean): string {
  const into = dryRun ? `would be imported into ${db}` : `imported into ${db}`;
  const lines = [`${into}: ${countsText(imported)}`];
  if (totalOf(present) > 0) lines.push(`there already: ${countsText(present)}`);
  if (totalOf(kept) > 0) lines.push(`kept as the store has them: ${countsText(kept)}`);
  return lines.join("\n");
}

function countsText(counts: Record<RecordKind, number>): string {
  const parts = recordKinds
    .filter((kind) => counts[kind] > 0)
    .map((kind) => `${counts[kind]} ${plurals[kind][counts[kind] === 1 ? 0 : 1]}`);
  return parts.length === 0 ? "nothing new" : parts.join(", ");
}
