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
  since?: number;
  until?: number;
  attempt?: string[];
  name?: string[];
  output?: string;
}

export function addExportOptions(command: Command): void {
  command.addArgument(new Argument("<what>", "what to write, or all for `agl import`").choices(exportKinds));
  addSourceOptions(command);
  command
    .addOption(listOption("--rollout <id>", "only these rollouts"))
    .addOption(listOption("--status <name>", "only rollouts in these states", rolloutStatuses))
    .addOption(listOption("--mode <name>", "only rollouts of these modes", modes))
    .addOption(
      timeOption(
        "--since <time>",
        "only rollouts made then or later: 2026-11-29, 2026-11-29T14:00Z, Unix seconds",
      ),
    )
    .addOption(timeOption("--until <time>", "only rollouts made before"))
    .addOption(
      listOption("--attempt <id>", "only these attempts, or latest: for attempts, spans, triplets, messages"),
    )
    .addOption(listOption("--name <name>", "only spans of these names"))
    .option("--output <file>", "a file instead of stdout; it appears when it is complete")
    .addHelpText("after", exportHelp);
}

const exportHelp = `
Each line is one JSON object as the store sends it, digit for digit. all writes everything that a store holds, each line
with its kind, {"rollout":{…}}, {"span":{…}}, each thing after what it belongs to: \`agl import\` reads it. Filters choose
rollouts with their attempts and spans; resources and workers are always written whole. Triplets, rows and messages are
made of spans on the way: triplets and messages of the latest attempt unless --attempt says otherwise, rows as training
would take them. Messages are {"messages":[…],"tools":[…],…}, for tools that train from text: each call's prompt and answer
as OpenAI's chat API has them, with the reward that flows back to it; of the same rollouts as rows unless --status,
--mode or --rollout says otherwise. stderr counts the calls that became no line, by reason.

  agl export all --db agl.db --output agl.jsonl
  agl export spans --store http://127.0.0.1:4747 --status failed --since 2026-11-29
  agl export messages --output train.jsonl`;

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

function timeOption(flags: string, description: string): Option {
  return new Option(flags, description).argParser((given: string) => {
    const isNumber = /^\d+(?:\.\d+)?$/.test(given);
    const isDate = /^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}.*)?$/.test(given);
    const seconds = isNumber ? Number(given) : isDate ? Date.parse(given) / 1000 : Number.NaN;
    if (!Number.isNaN(seconds)) return seconds;
    throw new InvalidArgumentError(
      `Expected a date, a time such as 2026-11-29T14:00Z, or Unix seconds, not ${JSON.stringify(given)}.`,
    );
  });
}

/** May be repeated, or hold several values with commas between them. */
export function listOption(flags: string, description: string, values?: readonly string[]): Option {
  const shown = values === undefined ? description : `${description} (${values.join(" | ")})`;
  return new Option(flags, shown).argParser((given: string, before: string[] | undefined) => {
    const list = given.split(",").map((value) => value.trim());
    const wrong = list.find((value) => value === "" || (values !== undefined && !values.includes(value)));
    if (wrong !== undefined) {
      const expected = values === undefined ? "a text that is not empty" : `one of ${values.join(", ")}`;
      throw new InvalidArgumentError(`Expected ${expected}, not ${JSON.stringify(wrong)}.`);
    }
    return [...(before ?? []), ...list];
  });
}
