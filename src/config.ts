import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { messageOf, UsageError } from "./errors.ts";
import { nearest } from "./nearest.ts";
import { masked } from "./secrets.ts";
import { FlagText, type Setting } from "./setting.ts";
import { environmentNameOf, flagOf, type SettingName, settings } from "./settings.ts";

export type Config = {
  readonly [Name in SettingName]: (typeof settings)[Name] extends Setting<infer Value> ? Value : never;
};

export type Source = "default" | "agl.toml" | "environment" | "flag";

export interface ResolvedConfig {
  config: Config;
  sources: Readonly<Record<SettingName, Source>>;
}

export interface ConfigInput {
  /** By setting name, as text; switches as booleans, repeated flags as lists. */
  flags?: Partial<Record<SettingName, string | boolean | string[]>>;
  /** What the flags were called, where that is not the settings' own name. */
  flagNames?: Partial<Record<SettingName, string>>;
  environment?: Record<string, string | undefined>;
  /** Folder that may hold agl.toml. */
  folder?: string;
}

const names = Object.keys(settings) as SettingName[];

/** Environment names that belong to us without being settings. */
const otherEnvironmentNames = new Set([
  "AGL_TOKEN",
  // Agent-lightning's own, for its Python programs (C-2).
  "AGL_MANAGED_STORE",
  "AGL_CURRENT_ROLE",
  "AGL_SERVER_HOST",
  "AGL_SERVER_PORT",
]);

/** Defaults < agl.toml < environment < flags; everything that is wrong is reported at once. */
export function resolveConfig(input: ConfigInput = {}): ResolvedConfig {
  const problems: string[] = [];
  const values = new Map<SettingName, unknown>(names.map((name) => [name, settings[name].default]));
  const sources = new Map<SettingName, Source>(names.map((name) => [name, "default"]));
  const take = (name: SettingName, given: unknown, source: Source, label: string) => {
    try {
      values.set(name, parse(settings[name], given));
      sources.set(name, source);
    } catch (error) {
      const shown = given instanceof FlagText ? given.value : given;
      problems.push(`${label}: ${messageOf(error)}, not ${JSON.stringify(masked(name, shown))}`);
    }
  };
  takeFile(input.folder ?? ".", take, problems);
  takeEnvironment(input.environment ?? {}, take, problems);
  for (const [name, given] of Object.entries(input.flags ?? {})) {
    const value = typeof given === "string" ? new FlagText(given) : given;
    take(name as SettingName, value, "flag", input.flagNames?.[name as SettingName] ?? flagOf(name));
  }
  if (problems.length > 0) throw new UsageError(problems.join("\n"), "`agl help config` lists every setting");
  return {
    config: Object.freeze(Object.fromEntries(values)) as Config,
    sources: Object.fromEntries(sources) as Record<SettingName, Source>,
  };
}

type Take = (name: SettingName, given: unknown, source: Source, label: string) => void;

function parse(setting: Setting<unknown>, given: unknown): unknown {
  if (!(given instanceof FlagText)) return setting.parse(given);
  // Only numbers need to know that they were written as text.
  const asText = setting.placeholder === "n" || setting.placeholder === "number" ? given : given.value;
  return setting.parse(asText);
}

function takeFile(folder: string, take: Take, problems: string[]): void {
  const file = join(folder, "agl.toml");
  if (!existsSync(file)) return;
  let tables: Record<string, unknown>;
  try {
    tables = Bun.TOML.parse(readFileSync(file, "utf8").replace(/^\uFEFF/, "")) as Record<string, unknown>;
  } catch (error) {
    problems.push(`agl.toml: ${messageOf(error)}`);
    return;
  }
  for (const [name, given] of flatten(tables)) {
    if (Object.hasOwn(settings, name)) take(name as SettingName, given, "agl.toml", `agl.toml: ${name}`);
    else problems.push(`agl.toml: no setting is named ${name}${suggestion(name, names)}`);
  }
}

function takeEnvironment(
  environment: Record<string, string | undefined>,
  take: Take,
  problems: string[],
): void {
  const byVariable = new Map(names.map((name) => [environmentNameOf(name), name]));
  for (const [variable, given] of Object.entries(environment)) {
    if (!variable.startsWith("AGL_") || given === undefined || otherEnvironmentNames.has(variable)) continue;
    const name = byVariable.get(variable);
    if (name !== undefined) take(name, new FlagText(given), "environment", variable);
    else problems.push(`no setting is named ${variable}${suggestion(variable, [...byVariable.keys()])}`);
  }
}

function flatten(tables: Record<string, unknown>, prefix = ""): [string, unknown][] {
  return Object.entries(tables).flatMap(([key, value]): [string, unknown][] =>
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? flatten(value as Record<string, unknown>, `${prefix}${key}.`)
      : [[prefix + key, value]],
  );
}

function suggestion(name: string, candidates: string[]): string {
  const found = nearest(name, candidates);
  return found === undefined ? "" : `; did you mean ${found}?`;
}
