import { Argument, type Command, InvalidArgumentError, Option } from "commander";
import { exportKinds } from "../inspect/export-kinds.ts";
import { type Mode, modes, type RolloutStatus, rolloutStatuses } from "../protocol/enums.ts";

/** Where `export` and `show` read from. */
export interface SourceOptions {
  store?: string;
  db?: string;
  run?: string;
}

export interface ExportOptions extends SourceOptions {
  rollout?: string[];
  status?: RolloutStatus[];
  mode?: Mode[];
  output?: string;
}

export function addExportOptions(command: Command): void {
  command.addArgument(new Argument("<what>", "what to write").choices(exportKinds));
  addSourceOptions(command);
  command
    .addOption(listOption("--rollout <id>", "only these rollouts"))
    .addOption(listOption("--status <name>", "only rollouts in these states", rolloutStatuses))
    .addOption(listOption("--mode <name>", "only rollouts of these modes", modes))
    .option("--output <file>", "a file instead of stdout; it appears when it is complete");
}

export function addShowOptions(command: Command): void {
  command.addArgument(new Argument("<id>", "of a rollout or an attempt; a unique beginning is enough"));
  addSourceOptions(command);
}

function addSourceOptions(command: Command): void {
  command
    .option("--store <url>", "a served store, for example http://127.0.0.1:4747")
    .option("--db <file>", "a store's file; also while its process lives")
    .option("--run <folder>", "a run's folder or its name; the newest run when nothing is named");
}

/** May be repeated, or hold several values with commas between them. */
function listOption(flags: string, description: string, values?: readonly string[]): Option {
  const shown = values === undefined ? description : `${description} (${values.join(" | ")})`;
  return new Option(flags, shown).argParser((given: string, before: string[] | undefined) => {
    const list = given.split(",").map((value) => value.trim());
    const wrong = list.find((value) => value === "" || (values !== undefined && !values.includes(value)));
    if (wrong !== undefined) {
      const expected = values === undefined ? "an id" : `one of ${values.join(", ")}`;
      throw new InvalidArgumentError(`Expected ${expected}, not ${JSON.stringify(wrong)}.`);
    }
    return [...(before ?? []), ...list];
  });
}
