import type { Config, Source } from "../config.ts";
import { masked } from "../secrets.ts";
import { environmentNameOf, type SettingName, settings } from "../settings.ts";

interface ShownSetting {
  name: SettingName;
  /** Null when it is unset. */
  value: unknown;
  source: Source;
}

/** `agl config`: what is in force, and who said so. */
export async function showConfig(
  config: Config,
  { sources, json }: { sources: Readonly<Record<SettingName, Source>>; json: boolean },
): Promise<number> {
  const shown = shownSettings(config, sources);
  console.log(json ? JSON.stringify(shown, null, 2) : table(shown).join("\n"));
  return 0;
}

/** Every setting that the help lists, and every other one that somebody set. */
export function shownSettings(
  config: Config,
  sources: Readonly<Record<SettingName, Source>>,
): ShownSetting[] {
  return (Object.keys(settings) as SettingName[])
    .filter((name) => !settings[name].hidden || sources[name] !== "default")
    .map((name) => ({
      name,
      value: masked(name, config[name]) ?? null,
      source: sources[name],
    }));
}

function table(shown: ShownSetting[]): string[] {
  const rows = shown.map(({ name, value, source }) => [
    name,
    value === null || String(value) === "" ? "-" : String(value),
    source === "environment" ? `environment (${environmentNameOf(name)})` : source,
  ]);
  const widths = [0, 1].map((column) => Math.max(...rows.map((row) => row[column]!.length)));
  return rows.map(([name = "", value = "", source = ""]) =>
    [name.padEnd(widths[0]!), value.padEnd(widths[1]!), source].join("  "),
  );
}
