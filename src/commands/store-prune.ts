import { resolve } from "node:path";
import type { Config } from "../config.ts";
import { UsageError } from "../errors.ts";
import { createLogger } from "../log.ts";
import { megabytes } from "../store/file/file-space.ts";
import type { PruneChoice, PrunedGroup } from "../store/prune.ts";
import { previewPrune, pruneFile, type PruneOutcome } from "../store/file/prune-file.ts";
import type { PruneOptions } from "./prune-options.ts";

/** `agl store prune`: says what would be deleted, and deletes it with `--apply`. */
export async function storePrune(
  config: Config,
  { own, json }: { own: Record<string, unknown>; json: boolean },
): Promise<number> {
  const options = own as PruneOptions;
  const path = fileOf(config["store.db"]);
  const now = Date.now() / 1000;
  const choice = choiceOf(options, now);
  if (options.apply === true) requireChoice(choice);
  const { groups, holder } = previewPrune(path, choice, now);
  if (options.apply !== true) {
    const note = holder === undefined ? "" : `; process ${holder} has the file and would have to stop first`;
    if (json) console.log(JSON.stringify({ file: path, groups, holder: holder ?? null }));
    else console.log(`${tableOf(groups)}\nnothing was deleted: --apply deletes${note}`);
    return 0;
  }
  const outcome = pruneFile(path, choice, createLogger("store", { level: config.log_level }));
  if (json) console.log(JSON.stringify({ file: path, groups, ...outcome }));
  else console.log(`${tableOf(groups)}\n${describeOutcome(outcome)}`);
  return 0;
}

function fileOf(path: string): string {
  if (path !== ":memory:") return resolve(path);
  throw new UsageError("a store in :memory: keeps nothing", "name a store's file with --db");
}

function choiceOf({ olderThan, status, keepLast }: PruneOptions, now: number): PruneChoice {
  return {
    ...(olderThan === undefined ? {} : { endedBefore: now - olderThan }),
    ...(status === undefined ? {} : { statuses: status }),
    ...(keepLast === undefined ? {} : { keepLast }),
  };
}

function requireChoice(choice: PruneChoice): void {
  if (Object.keys(choice).length > 0) return;
  throw new UsageError(
    "--apply alone would delete every finished rollout",
    "say which ones with --older-than, --status or --keep-last",
  );
}

function tableOf(groups: PrunedGroup[]): string {
  const total = groups.reduce(
    (sum, group) => ({
      rollouts: sum.rollouts + group.rollouts,
      attempts: sum.attempts + group.attempts,
      spans: sum.spans + group.spans,
      bytes: sum.bytes + group.bytes,
    }),
    { rollouts: 0, attempts: 0, spans: 0, bytes: 0 },
  );
  const lines = [
    ["status", "ended", "rollouts", "attempts", "spans", "stored"],
    ...groups.map((group) => [group.status, group.ended, ...counts(group)]),
    ["all", "", ...counts(total)],
  ];
  const widths = lines[0]!.map((_, column) => Math.max(...lines.map((line) => line[column]!.length)));
  return lines
    .map((line) =>
      line
        .map((cell, column) => padded(cell, widths[column]!, column))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

function counts({ rollouts, attempts, spans, bytes }: Omit<PrunedGroup, "status" | "ended">): string[] {
  return [`${rollouts}`, `${attempts}`, `${spans}`, megabytes(bytes)];
}

/** Words to the left, numbers to the right. */
function padded(cell: string, width: number, column: number): string {
  return column < 2 ? cell.padEnd(width) : cell.padStart(width);
}

function describeOutcome({ rollouts, freedBytes, reusableBytes }: PruneOutcome): string {
  const freed = `${rollouts === 1 ? "1 rollout was" : `${rollouts} rollouts were`} deleted; the file is ${megabytes(freedBytes)} smaller`;
  if (reusableBytes < 1_000_000) return freed;
  return `${freed}, and ${megabytes(reusableBytes)} in it are free for what is written next`;
}
