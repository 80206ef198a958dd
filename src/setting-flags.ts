import { type Command, Option } from "commander";
import { UsageError } from "./errors.ts";
import { flagOf, type SettingName, settings } from "./settings.ts";

/** Which settings a command takes as flags. */
export interface TakenSettings {
  /** All of them when absent. */
  settings?: SettingName[];
  /** Settings that it does not read, and whose flags it therefore refuses. */
  without?: SettingName[];
  /** Shorter names of settings' flags. */
  aliases?: Partial<Record<SettingName, string>>;
}

export function namesFor({ settings: taken, without = [] }: TakenSettings): SettingName[] {
  const names = Object.keys(settings) as SettingName[];
  return names.filter((name) => (taken?.includes(name) ?? true) && !without.includes(name));
}

/** Each setting's flag or, where it has a shorter one, both; the help then shows the shorter. */
export function addSettingFlags(command: Command, taken: TakenSettings): void {
  for (const name of namesFor(taken)) {
    const full = optionFor(name, flagOf(name));
    const alias = taken.aliases?.[name];
    if (alias !== undefined) command.addOption(optionFor(name, `--${alias}`));
    command.addOption(alias === undefined ? full : full.hideHelp());
  }
}

function optionFor(name: SettingName, longFlag: string): Option {
  const { placeholder, description, default: fallback, hidden } = settings[name];
  const short = name === "runners.count" ? "-n, " : "";
  const flag = placeholder === undefined ? longFlag : `${longFlag} <${placeholder}>`;
  const isList = Array.isArray(fallback);
  const shown = fallback === undefined || placeholder === undefined || isList ? "" : ` [${fallback}]`;
  const option = new Option(short + flag, description + shown);
  if (isList) option.argParser((given: string, before: string[] | undefined) => [...(before ?? []), given]);
  return hidden ? option.hideHelp() : option;
}

type Given = string | boolean | string[];

/** Commander names options in camel case; settings are named by their path. */
export function flagsByName(
  given: Record<string, Given>,
  { aliases = {}, ...taken }: TakenSettings,
): Partial<Record<SettingName, Given>> {
  const values = namesFor(taken).map((name): [SettingName, Given | undefined] => {
    const alias = aliases[name];
    const value = given[camelCase(name)];
    const shorter = alias === undefined ? undefined : given[camelCase(alias)];
    if (value !== undefined && shorter !== undefined) {
      throw new UsageError(
        `--${alias} and ${flagOf(name)} are both given`,
        "they are the same setting; name one",
      );
    }
    return [name, shorter ?? value];
  });
  return Object.fromEntries(values.filter(([, value]) => value !== undefined));
}

/** Those of the shorter flags that were given. */
export function shorterNames(
  given: Record<string, Given>,
  { aliases = {} }: TakenSettings,
): Partial<Record<SettingName, string>> {
  const used = Object.entries(aliases).filter(([, alias]) => given[camelCase(alias)] !== undefined);
  return Object.fromEntries(used.map(([name, alias]) => [name, `--${alias}`]));
}

function camelCase(name: string): string {
  return name.replace(/[._-](.)/g, (_, letter: string) => letter.toUpperCase());
}
