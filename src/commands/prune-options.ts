import { type Command, InvalidArgumentError } from "commander";
import { finishedStatuses } from "../protocol/enums.ts";
import type { FinishedStatus } from "../store/prune.ts";
import { listOption } from "./inspection-options.ts";

export interface PruneOptions {
  /** Seconds. */
  olderThan?: number;
  status?: FinishedStatus[];
  keepLast?: number;
  apply?: boolean;
}

export function addPruneOptions(command: Command): void {
  command
    .option(
      "--older-than <age>",
      "only rollouts that ended longer ago, for example 12h, 30d or 8w",
      ageInSeconds,
    )
    .addOption(listOption("--status <name>", "only rollouts in these states", finishedStatuses))
    .option("--keep-last <n>", "never the n finished rollouts that ended last", count)
    .option("--apply", "delete; without it, nothing is changed");
}

const unitSeconds: { [unit: string]: number } = { m: 60, h: 3600, d: 86_400, w: 604_800 };

function ageInSeconds(given: string): number {
  const [, number, unit] = /^(\d+(?:\.\d+)?)([mhdw])$/.exec(given.trim()) ?? [];
  if (number !== undefined && unit !== undefined) return Number(number) * unitSeconds[unit]!;
  throw new InvalidArgumentError(
    `Expected a number with m, h, d or w, such as 30d, not ${JSON.stringify(given)}.`,
  );
}

function count(given: string): number {
  if (/^\d{1,15}$/.test(given.trim())) return Number(given);
  throw new InvalidArgumentError(`Expected a whole number, not ${JSON.stringify(given)}.`);
}
